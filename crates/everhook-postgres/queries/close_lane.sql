-- Close the lanes of deleted endpoints: the next leases take their tasks, to be cancelled. Index: the primary key.
-- Differs: many rows at once, locked in key order.
with locked as materialized (
    select lane.environment, lane.id
    from {include locked_lane}
)
update everhook.lane
set state = 2,
    next_due = 0,
    floor = 0
from locked
where lane.environment = any (array[locked.environment])
    and lane.id = locked.id;
