-- Count the open tasks of an environment by state, up to a bound for each. Indexes: task_ready, task_owner, task_dead,
-- task_dead_job, the primary key of lane. Also returns the waiting time of the oldest due task among the counted ones.
-- A task is due if its lane is not held.
-- Differs: the indexes are named, because the planner does not choose a partial index by its predicate alone; the
-- caller passes the time.
with by_lane as materialized (
    select lane, count(*) as pending, sum(due_at <= :now) as due, sum(tries > 0) as retrying, min(due_at) as first_due
    from (
        select task.lane, task.due_at, task.tries
        from task indexed by task_ready
        where task.environment = :environment
            and task.state = 0
        limit :counted_max
    )
    group by lane
)
select
    coalesce(sum(by_lane.pending), 0),
    coalesce(sum(by_lane.due) filter (where lane.ready_at <= :now), 0),
    coalesce(sum(by_lane.retrying), 0),
    (
        select count(*)
        from (select 1 from task indexed by task_owner where environment = :environment and state = 1 limit :counted_max)
    ),
    (
        select count(*)
        from (select 1 from task indexed by task_dead where environment = :environment and state = 2 limit :counted_max)
    ),
    (
        select count(*)
        from (
            select 1
            from task indexed by task_dead_job
            where environment = :environment
                and state = 2
                and kind = 1
            limit :counted_max
        )
    ),
    max(:now - max(by_lane.first_due, lane.hold_until)) filter (where lane.ready_at <= :now and by_lane.due > 0)
from by_lane
    left join lane on lane.environment = :environment
        and lane.id = by_lane.lane;
