-- The targets of queues want no more: stop the queues of these lanes, if they are open. Indexes: the primary keys.
-- Differs: many rows at once. Rows come in key order.
with clock as materialized (
    select everhook.now_us() as now
)
insert into everhook.queue as stopped (environment, name, state, updated_at, revision)
select distinct lane.environment, lane.queue, 2, clock.now, 1
from clock
    cross join unnest(:wanted)
    join everhook.lane on lane.environment = any (array[wanted.environment])
        and lane.id = wanted.id
where lane.queue is not null
order by lane.environment, lane.queue
on conflict (environment, name) do update
set state = excluded.state,
    updated_at = excluded.updated_at,
    revision = stopped.revision + 1
where stopped.state = 0;
