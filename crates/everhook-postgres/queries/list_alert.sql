-- List the alert rules of all environments. Environments are few; each is one range of the primary key of resource.
-- Differs: `offset 0` keeps each environment a look-up by key, whatever the statistics say.
select {alert: ResourceRow}
from everhook.environment
    cross join lateral (
        select *
        from everhook.resource
        where resource.environment = environment.id
            and resource.kind = 11
            and resource.parent = ''
            and resource.deleted_at is null
        offset 0
    ) as alert
limit :limit;
