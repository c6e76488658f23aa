-- Tell lanes when their next task is due, and that new ones wait. Whoever leaves a pending task behind does this before it commits.
-- Index: the primary key.
-- Differs: the key share lock keeps a drain out until the task is visible; a drain that was first is waited for, and `touched` then sees
-- what it left. Only lanes whose time has to become earlier are written, or that begin to wait: the floor is never above the time. Locks are
-- taken in key order.
with touched as materialized (
    select lane.environment, lane.id, lane.next_due, lane.waiting, wanted.due_at, wanted.waits
    from unnest(:wanted)
        join everhook.lane on lane.environment = any (array[wanted.environment])
            and lane.id = wanted.id
    order by wanted.environment, wanted.id
    for key share of lane
),
late as materialized (
    select lane.environment, lane.id, touched.due_at, touched.waits
    from touched
        join everhook.lane on lane.environment = any (array[touched.environment])
            and lane.id = touched.id
    where touched.next_due > touched.due_at
        or touched.waits > touched.waiting
    order by touched.environment, touched.id
    for no key update of lane
)
update everhook.lane
set next_due = least(lane.next_due, late.due_at),
    floor = least(lane.floor, late.due_at),
    waiting = lane.waiting or late.waits
from late
where lane.environment = any (array[late.environment])
    and lane.id = late.id;
