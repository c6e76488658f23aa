-- Find a resource by id, even a deleted one, with the state of a schedule. Indexes: the primary keys.
{include resource_of_kind}
    and resource.parent = :parent
    and resource.id = :id;
