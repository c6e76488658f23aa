-- As `lower_lane_due`, for lanes that nobody may have emptied and removed meanwhile: without one of them nothing is written. Index: the primary
-- key.
-- No twin: SQLite has one writer, so that nobody can remove a lane between `create_lane_queue` and this. `everhook.expect` undoes the
-- transaction, which is then run again.
with touched as materialized (
    select lane.environment, lane.id, lane.next_due, wanted.due_at
    from unnest(:wanted)
        join everhook.lane on lane.environment = any (array[wanted.environment])
            and lane.id = wanted.id
    order by wanted.environment, wanted.id
    for key share of lane
),
late as materialized (
    select lane.environment, lane.id, touched.due_at
    from touched
        join everhook.lane on lane.environment = any (array[touched.environment])
            and lane.id = touched.id
    where touched.next_due > touched.due_at
    order by touched.environment, touched.id
    for no key update of lane
),
moved as (
    update everhook.lane
    set next_due = least(lane.next_due, late.due_at),
        floor = least(lane.floor, late.due_at)
    from late
    where lane.environment = any (array[late.environment])
        and lane.id = late.id
)
select everhook.expect(count(*) = cardinality(:wanted.environment)) as undone
from touched;
