-- Close the lanes of deleted endpoints: the next leases take their tasks, to be cancelled. Index: the primary key.
-- Differs: many rows at once, locked in key order.
with locked as materialized (
    select lane.environment, lane.id
    from unnest(:wanted)
        join everhook.lane on lane.environment = any (array[wanted.environment])
            and lane.id = wanted.id
    order by wanted.environment, wanted.id
    for no key update of lane
)
update everhook.lane
set state = 2,
    next_due = 0,
    floor = 0
from locked
where lane.environment = any (array[locked.environment])
    and lane.id = locked.id;
