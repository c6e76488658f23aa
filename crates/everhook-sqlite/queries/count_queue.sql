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
            where {include ready_lane}
            limit :counted_max
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
                    and task.due_at <= :now
                    and task.state = 0
            where {include ready_lane}
            limit :counted_max
        )
    ),
    (
        select count(*)
        from (
            select 1
            from task indexed by task_owner
                cross join lane on lane.environment = task.environment and lane.id = task.lane and lane.feed = :feed
            where task.state = 1
                and task.kind = 1
                and +task.environment = :environment
            limit :counted_max
        )
    ),
    (
        select count(*)
        from (
            select 1
            from task indexed by task_dead_job
                cross join lane on lane.environment = task.environment and lane.id = task.lane and lane.feed = :feed
            where task.environment = :environment
                and task.state = 2
                and task.kind = 1
            limit :counted_max
        )
    ),
    coalesce(
        (select ended from queue_minute where environment = :environment and queue = :queue and minute = :minute),
        0
    );
