-- Change the circuit breakers of lanes, and hold lanes whose breaker opens (6), unless they hold for longer. A breaker that
-- another attempt has changed stays as it is. Index: the primary key. `free_lane` has locked the lanes.
-- Differs: many lanes at once. A lane has one change for each state, so that at most one of them matches.
with clock as materialized (
    select everhook.now_us() as now
)
update everhook.lane
set breaker = changed.next,
    hold_until = case when changed.open_us > 0 then greatest(lane.hold_until, clock.now + changed.open_us) else lane.hold_until end,
    hold_kind = case when changed.open_us > 0 and lane.hold_until < clock.now + changed.open_us then 6 else lane.hold_kind end
from clock
    cross join unnest(:changed)
where lane.environment = any (array[changed.environment])
    and lane.id = changed.id
    and lane.breaker = changed.seen;
