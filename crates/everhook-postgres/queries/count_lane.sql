-- Count the due and the dead tasks of a lane, up to a bound for each. Indexes: task_ready, task_dead, the primary key
-- of lane. Also returns the waiting time of the oldest due task. A task is due if its lane is not held.
with clock as materialized (
    select everhook.now_us() as now
),
waiting as materialized (
    select count(*) filter (where task.due_at <= clock.now) as due, min(task.due_at) as first_due
    from (
        select task.due_at
        from everhook.task
        where task.environment = :environment
            and task.lane = :lane
            and task.state = 0
        order by task.priority, task.due_at
        limit :counted_max
    ) as task
        cross join clock
)
select
    case when lane.ready_at <= clock.now then waiting.due else 0 end as due,
    (
        select count(*)
        from (
            {include task_of_lane; environment = :environment; lane = :lane; state = 2}
            order by task.id
            limit :counted_max
        ) as dead
    ) as dead,
    case
        when lane.ready_at <= clock.now and waiting.due > 0
        then clock.now - greatest(waiting.first_due, lane.hold_until)
    end as oldest
from waiting
    cross join clock
    left join everhook.lane on lane.environment = :environment
        and lane.id = :lane;
