-- Count pending and dead tasks and open breakers, up to a bound. Indexes: task_ready, task_dead, lane_ready,
-- lane_breaker. Also returns the waiting time of the oldest due delivery, in the lanes that have waited longest for
-- their turn.
-- Differs: the indexes are named, because the planner does not choose a partial index by its predicate alone; the
-- caller passes the time.
select
    (select count(*) from (select 1 from task indexed by task_ready where state = 0 limit :counted_max)),
    (select count(*) from (select 1 from task indexed by task_dead where state = 2 limit :counted_max)),
    coalesce(
        (
            select :now - min(max(hold_until, (
                select due_at
                from task indexed by task_ready
                where task.environment = ready.environment
                    and task.lane = ready.id
                    and task.priority = :priority
                    and task.state = 0
                order by due_at
                limit 1
            )))
            from (
                select environment, id, hold_until
                from lane
                where feed = x'00'
                    and ready_at < 9223372036854775807
                order by ready_at
                limit :lanes_max
            ) as ready
        ),
        0
    ),
    (select count(*) from (select 1 from lane indexed by lane_breaker where breaker > 0 limit :counted_max));
