-- Tell lanes when their next task is due, that new ones wait, and how long to rest. Whoever leaves a pending task behind does this before it
-- commits. Index: the primary key.
-- Differs: the key share lock keeps a drain out until the task is visible; a drain that was first is waited for, and `touched` then sees
-- what it left. Only lanes whose time has to become earlier are written, or that begin to wait or to rest: the floor is never above the
-- time. Locks are taken in key order. SQLite has `hold_lane` for the rest.
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
    hold_until = greatest(lane.hold_until, late.hold)
from late
where lane.environment = any (array[late.environment])
    and lane.id = late.id;
