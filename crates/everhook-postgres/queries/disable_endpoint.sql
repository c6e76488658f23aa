-- The receivers said that they are gone: switch the endpoints off, hold their lanes, tell the caches. Index: the primary keys.
-- Differs: many rows at once, lanes and applications with them. Only the lane is known: it is the endpoint's id.
with lane as (
    select lane.environment, lane.application, lane.id
    from unnest(:wanted)
        join everhook.lane on lane.environment = any (array[wanted.environment])
            and lane.id = wanted.id
),
gone as (
    update everhook.endpoint
    set state = 2,
        updated_at = everhook.now_us(),
        revision = endpoint.revision + 1
    from lane
    where endpoint.environment = any (array[lane.environment])
        and endpoint.application = lane.application
        and endpoint.id = lane.id
        and endpoint.state = 0
        and endpoint.deleted_at is null
    returning endpoint.environment, endpoint.application, endpoint.id
),
told as (
    update everhook.application
    set revision = application.revision + 1
    from (select distinct environment, application from gone) as parent
    where application.environment = any (array[parent.environment])
        and application.id = parent.application
)
update everhook.lane
set state = 1
from gone
where lane.environment = any (array[gone.environment])
    and lane.id = gone.id
    and lane.state = 0;
