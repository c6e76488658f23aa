-- Count the jobs of a queue by state, up to a bound. Indexes: lane_ready, task_ready, task_owner, task_dead_job, the
-- primary keys. Also returns the number of attempts that ended in a minute.
-- Differs: the indexes of leased and dead tasks are named, because the planner does not choose a partial index by its
-- predicate alone.
select
    (
        select count(*)
        from (
            select 1
            from lane
                cross join task on task.environment = lane.environment and task.lane = lane.id and task.state = 0
            where lane.feed = ?6
                and lane.environment = ?1
                and lane.ready_at < 9223372036854775807
            limit ?4
        )
    ),
    (
        select count(*)
        from (
            with priority (number) as (
                values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)
            )
            select 1
            from lane
                cross join priority
                cross join task on task.environment = lane.environment
                    and task.lane = lane.id
                    and task.priority = priority.number
                    and task.due_at <= ?3
                    and task.state = 0
            where lane.feed = ?6
                and lane.environment = ?1
                and lane.ready_at < 9223372036854775807
            limit ?4
        )
    ),
    (
        select count(*)
        from (
            select 1
            from task indexed by task_owner
                cross join lane on lane.environment = task.environment and lane.id = task.lane and lane.feed = ?6
            where task.state = 1
                and task.kind = 1
                and +task.environment = ?1
            limit ?4
        )
    ),
    (
        select count(*)
        from (
            select 1
            from task indexed by task_dead_job
                cross join lane on lane.environment = task.environment and lane.id = task.lane and lane.feed = ?6
            where task.environment = ?1
                and task.state = 2
                and task.kind = 1
            limit ?4
        )
    ),
    coalesce((select ended from queue_minute where environment = ?1 and queue = ?2 and minute = ?5), 0);
