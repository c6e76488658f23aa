-- Count pending and dead tasks and open breakers, up to a bound. Indexes: task_ready, task_dead, lane_ready,
-- lane_breaker. Also returns the waiting time of the oldest due delivery, in the lanes that have waited longest for
-- their turn. Leased tasks are not counted: every delivery leaves a dead entry in task_owner, and during a long
-- transaction a count would read them all.
select
    (select count(*) from (select 1 from everhook.task where task.state = 0 limit :counted_max) as pending),
    (select count(*) from (select 1 from everhook.task where task.state = 2 limit :counted_max) as dead),
    coalesce(
        (
            select everhook.now_us() - min(greatest(first.due_at, ready.hold_until))
            from (
                select lane.environment, lane.id, lane.hold_until, lane.floor
                from everhook.lane
                where lane.feed = '\x00'
                    and lane.ready_at < 9223372036854775807
                order by lane.ready_at
                limit :lanes_max
            ) as ready
                cross join lateral (
                    select task.due_at
                    from everhook.task
                    where task.environment = ready.environment
                        and task.lane = ready.id
                        and task.priority = :priority
                        and task.due_at >= ready.floor
                        and task.state = 0
                    order by task.due_at
                    limit 1
                ) as first
        ),
        0
    ) as due_for,
    (select count(*) from (select 1 from everhook.lane where lane.breaker > 0 limit :counted_max) as breakers);
