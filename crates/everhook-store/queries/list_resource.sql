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
            select 1
            from everhook.resource as endpoint
            where endpoint.environment = resource.environment
                and endpoint.kind = 1
                and endpoint.parent = resource.id
                and endpoint.deleted_at is null
                and (:having = 1 or endpoint.state = 0)
        )
        or :having = 3 and (
            exists (
                select 1
                from everhook.resource as endpoint
                where endpoint.environment = resource.environment
                    and endpoint.kind = 1
                    and endpoint.parent = resource.id
                    and endpoint.deleted_at is null
                    and endpoint.state = 0
            )
            or not exists (
                select 1
                from everhook.resource as endpoint
                where endpoint.environment = resource.environment
                    and endpoint.kind = 1
                    and endpoint.parent = resource.id
                    and endpoint.deleted_at is null
            )
        ))
order by resource.id :order
limit :limit;
