-- Find a resource by uid or name, with the state of a schedule. Indexes: resource_name, the primary key.
{include resource_of_kind}
    and resource.parent = :parent
    and resource.name = :name
    and resource.deleted_at is null;
