-- Delete endpoints of an application, all or one; their uids are free again. Index: the primary key.
-- Differs: the lanes in the same statement; closing ones are made ready, so that a lease empties them. Locked in key order.
with gone as materialized (
    update everhook.endpoint
    set deleted_at = everhook.now_us(),
        revision = revision + 1
    where environment = :environment
        and application = :application
        and (:id::bytea is null or id = :id)
        and deleted_at is null
    returning environment, id
),
lane as materialized (
    select lane.environment, lane.id
    from gone
        join everhook.lane on lane.environment = any (array[gone.environment])
            and lane.id = gone.id
    order by gone.environment, gone.id
    for no key update of lane
),
closed as (
    update everhook.lane
    set state = 2,
        next_due = 0,
        floor = 0
    from lane as locked
    where lane.environment = any (array[locked.environment])
        and lane.id = locked.id
)
select count(*)
from gone;
