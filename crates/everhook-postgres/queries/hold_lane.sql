-- After a settle: tell lanes when their next task is due and how long to rest. Index: the primary key.
-- Differs: does what `lower_lane_due` does as well, so that the locks of both are taken once and in key order.
with clock as materialized (
    select everhook.now_us() as now
),
wanted as materialized (
    select environment, id, due_at, case when hold_us > 0 then clock.now + hold_us else 0 end as hold_until
    from clock
        cross join unnest(:given)
),
touched as materialized (
    select lane.environment, lane.id, lane.next_due, lane.hold_until, wanted.due_at, wanted.hold_until as hold
    from wanted
        join everhook.lane on lane.environment = any (array[wanted.environment])
            and lane.id = wanted.id
    order by wanted.environment, wanted.id
    for key share of lane
),
late as materialized (
    select lane.environment, lane.id, touched.due_at, touched.hold
    from touched
        join everhook.lane on lane.environment = any (array[touched.environment])
            and lane.id = touched.id
    where touched.next_due > touched.due_at
        or touched.hold_until < touched.hold
    order by touched.environment, touched.id
    for no key update of lane
)
update everhook.lane
set next_due = least(lane.next_due, late.due_at),
    floor = least(lane.floor, late.due_at),
    hold_until = greatest(lane.hold_until, late.hold)
from late
where lane.environment = any (array[late.environment])
    and lane.id = late.id;
