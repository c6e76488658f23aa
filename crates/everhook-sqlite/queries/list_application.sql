-- Applications between two ids: all of them, or some by their endpoints. Indexes: the primary keys.
select id, uid, name, throttle_rate, metadata, created_at, updated_at, revision
from application
where environment = ?1
    and id > ?2
    and id < ?3
    and deleted_at is null
    and (?5 = 0
        or ?5 in (1, 2) and exists (
            select 1
            from endpoint
            where endpoint.environment = application.environment
                and endpoint.application = application.id
                and endpoint.deleted_at is null
                and (?5 = 1 or endpoint.state = 0)
        )
        or ?5 = 3 and (
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
order by id asc
limit ?4;
