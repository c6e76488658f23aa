-- List resources in a range of ids; applications may be filtered by their endpoints. Index: resource_open.
select {resource: ResourceRow}
from everhook.resource
where resource.environment = :environment
    and resource.kind = :kind
    and resource.parent = :parent
    and resource.id > :above
    and resource.id < :below
    and resource.deleted_at is null
    and (:having = 0
        or :having in (1, 2) and exists (
            {include endpoint_of_resource}
                and (:having = 1 or endpoint.state = 0)
        )
        or :having = 3 and (
            exists (
                {include endpoint_of_resource}
                    and endpoint.state = 0
            )
            or not exists (
                {include endpoint_of_resource}
            )
        ))
order by resource.id :order
limit :limit;
