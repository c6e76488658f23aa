-- Change the circuit breakers of lanes, and hold lanes whose breaker opens (6), unless they hold for longer. A breaker
-- that another attempt has changed stays as it is. Index: the primary key. `free_lane` has locked the lanes.
-- Differs: many lanes at once. A lane has one change for each state, so that at most one of them matches.
with opened as materialized (
    select changed.environment, changed.id, changed.seen, changed.next,
        case when changed.open_us > 0 then everhook.now_us() + changed.open_us else 0 end as open_until
    from unnest(:changed)
)
update everhook.lane
set breaker = opened.next,
    hold_until = greatest(lane.hold_until, opened.open_until),
    hold_kind = case when lane.hold_until < opened.open_until then 6 else lane.hold_kind end
from opened
where lane.environment = any (array[opened.environment])
    and lane.id = opened.id
    and lane.breaker = opened.seen;
