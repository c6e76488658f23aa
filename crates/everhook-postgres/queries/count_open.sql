-- Count the open tasks of an environment by state, up to a bound for each. Indexes: task_ready, task_owner, task_dead,
-- task_dead_job, the primary key of lane. Also returns the waiting time of the oldest due task among the counted ones.
-- The order is that of the index, so that no other plan is cheaper. A task is due if its lane is not held.
with clock as materialized (
    select everhook.now_us() as now
),
waiting as materialized (
    select task.lane, task.due_at, task.tries
    from everhook.task
    where task.environment = :environment
        and task.state = 0
    order by task.environment, task.lane, task.priority, task.due_at
    limit :counted_max
),
by_lane as materialized (
    select waiting.lane, count(*) as pending, count(*) filter (where waiting.due_at <= clock.now) as due,
        count(*) filter (where waiting.tries > 0) as retrying, min(waiting.due_at) as first_due
    from waiting
        cross join clock
    group by waiting.lane
)
select
    coalesce(sum(by_lane.pending), 0)::bigint as pending,
    coalesce(sum(by_lane.due) filter (where lane.ready_at <= clock.now), 0)::bigint as due,
    coalesce(sum(by_lane.retrying), 0)::bigint as retrying,
    (
        select count(*)
        from (
            -- All leased tasks are read: no more than the nodes have places. The offset keeps the environment out of
            -- the look-up, where the statistics could choose the primary key and read all tasks of the environment.
            select 1
            from (
                select task.environment
                from everhook.task
                where task.state = 1
                order by task.owner
                offset 0
            ) as held
            where held.environment = :environment
            limit :counted_max
        ) as leased
    ) as leased,
    (
        select count(*)
        from (
            select 1
            from everhook.task
            where task.environment = :environment
                and task.state = 2
            order by task.environment, task.lane, task.id
            limit :counted_max
        ) as dead
    ) as dead,
    (
        select count(*)
        from (
            select 1
            from everhook.task
            where task.environment = :environment
                and task.state = 2
                and task.kind = 1
            order by task.environment, task.subject
            limit :counted_max
        ) as dead_jobs
    ) as dead_jobs,
    max(clock.now - greatest(by_lane.first_due, lane.hold_until)) filter (
        where lane.ready_at <= clock.now
            and by_lane.due > 0
    ) as oldest
from by_lane
    cross join clock
    left join lateral (
        -- The offset keeps this a look-up by key for each lane, whatever the statistics say.
        select lane.ready_at, lane.hold_until
        from everhook.lane
        where lane.environment = :environment
            and lane.id = by_lane.lane
        offset 0
    ) as lane on true;
