-- Count the due and the dead tasks of a lane, up to a bound for each. Indexes: task_ready, task_dead, the primary key
-- of lane. Also returns the waiting time of the oldest due task. A task is due if its lane is not held.
-- Differs: the indexes are named, because the planner does not choose a partial index by its predicate alone; the
-- caller passes the time.
with waiting as materialized (
    select count(*) filter (where due_at <= :now) as due, min(due_at) as first_due
    from (
        select due_at
        from task indexed by task_ready
        where environment = :environment
            and lane = :lane
            and state = 0
        order by priority, due_at
        limit :counted_max
    )
)
select
    iif(lane.ready_at <= :now, waiting.due, 0),
    (
        select count(*)
        from (
            select 1
            from task indexed by task_dead
            where environment = :environment
                and lane = :lane
                and state = 2
            limit :counted_max
        )
    ),
    iif(lane.ready_at <= :now and waiting.due > 0, :now - max(waiting.first_due, lane.hold_until), null)
from waiting
    left join lane on lane.environment = :environment
        and lane.id = :lane;
