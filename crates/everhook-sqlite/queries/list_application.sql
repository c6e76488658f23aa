-- Applications between two ids: all of them, or some by their endpoints. Indexes: the primary keys.
select {Application}
from application
where environment = :environment
    and id > :above
    and id < :below
    and deleted_at is null
    and (:having = 0
        or :having in (1, 2) and exists (
            select 1
            from endpoint
            where endpoint.environment = application.environment
                and endpoint.application = application.id
                and endpoint.deleted_at is null
                and (:having = 1 or endpoint.state = 0)
        )
        or :having = 3 and (
            exists (
                select 1
                from endpoint
                where endpoint.environment = application.environment
                    and endpoint.application = application.id
                    and endpoint.deleted_at is null
                    and endpoint.state = 0
            )
            or not exists (
                select 1
                from endpoint
                where endpoint.environment = application.environment
                    and endpoint.application = application.id
                    and endpoint.deleted_at is null
            )
        ))
order by id :order
limit :limit;
