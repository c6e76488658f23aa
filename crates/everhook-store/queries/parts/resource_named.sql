-- Resources in a range of names, up to a state. Indexes: resource_name, the primary key.
{include resource_of_kind}
    and resource.parent = ''::bytea
    and resource.name > :above
    and resource.name < :below
    and resource.state <= :state_max
    and resource.deleted_at is null
order by resource.name :order
limit :limit
