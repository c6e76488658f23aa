-- Lower the due times of lanes, mark them as waiting, and hold them back. Index: the primary key. Every transaction
-- that leaves a pending task behind runs this before its commit. `lock_lane` runs just before, in a statement of its
-- own.
-- The race: a lease finds the lane empty and sets `next_due` to "never", while this transaction has a pending task that
-- the lease cannot see yet. The key share lock prevents it: `mark_lane_empty` needs the full lock, and does not get it
-- until this transaction has committed. If `mark_lane_empty` came first, `lock_lane` waited for it, and `touched` sees
-- its result.
-- A lane is written only if its due time must become earlier, or if it starts to wait or to rest. Appends to a busy
-- lane therefore only share the lock, and do not wait for each other. The floor is lowered too, so that it never
-- exceeds `next_due`.
-- Differs: locks are taken in key order. SQLite holds lanes back with `hold_lane`.
with clock as materialized (
    select everhook.now_us() as now
),
touched as materialized (
    select lane.environment, lane.id, lane.next_due, lane.waiting, lane.hold_until, wanted.due_at, wanted.waits,
        case when wanted.hold_us > 0 then clock.now + wanted.hold_us else 0 end as hold
    from clock
        cross join unnest(:wanted)
        join everhook.lane on lane.environment = any (array[wanted.environment])
            and lane.id = wanted.id
    order by wanted.environment, wanted.id
    for key share of lane
),
late as materialized (
    select lane.environment, lane.id, touched.due_at, touched.waits, touched.hold
    from touched
        join everhook.lane on lane.environment = any (array[touched.environment])
            and lane.id = touched.id
    where touched.next_due > touched.due_at
        or touched.waits > touched.waiting
        or touched.hold_until < touched.hold
    order by touched.environment, touched.id
    for no key update of lane
)
update everhook.lane
set next_due = least(lane.next_due, late.due_at),
    floor = least(lane.floor, late.due_at),
    waiting = lane.waiting or late.waits,
    hold_until = greatest(lane.hold_until, late.hold),
    hold_kind = case when lane.hold_until < late.hold then 0 else lane.hold_kind end
from late
where lane.environment = any (array[late.environment])
    and lane.id = late.id;
