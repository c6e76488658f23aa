-- Count the jobs of a queue by state, up to a bound. Indexes: lane_ready, lane_queue, task_ready, task_dead,
-- task_owner, the primary keys. Also returns the waiting time of the oldest due job, in the lanes that have been ready
-- longest, and the number of attempts that ended in the last whole minute.
with clock as materialized (
    select everhook.now_us() as now
),
lane as materialized (
    {include ready_lane}
    limit :counted_max
),
oldest as materialized (
    select min(head.due_at) as due_at
    from (select environment, id from lane limit :lanes_max) as lane
        cross join unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) as level (priority)
        cross join lateral (
            select task.due_at
            from everhook.task
            where task.environment = lane.environment
                and task.lane = lane.id
                and task.priority = level.priority
                and task.state = 0
            order by task.due_at
            limit 1
        ) as head
)
select
    (
        select count(*)
        from (
            select 1
            from lane
                cross join lateral (
                    {include task_of_lane; environment = lane.environment; lane = lane.id; state = 0}
                    limit :counted_max
                ) as task
            limit :counted_max
        ) as pending
    ),
    (
        select count(*)
        from (
            select 1
            from lane
                cross join unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) as level (priority)
                cross join lateral (
                    select 1
                    {include due_task}
                    limit :counted_max
                ) as task
            limit :counted_max
        ) as due
    ),
    (
        select count(*)
        from (
            select 1
            from everhook.task
            where task.state = 1
                and task.owner is not null
                and task.environment = :environment
                and (
                    select lane.feed
                    from everhook.lane
                    where lane.environment = task.environment
                        and lane.id = task.lane
                ) = :feed
            limit :counted_max
        ) as running
    ),
    (
        select count(*)
        from (
            select 1
            from everhook.lane
                cross join lateral (
                    {include task_of_lane; environment = lane.environment; lane = lane.id; state = 2}
                    limit :counted_max
                ) as task
            where lane.environment = :environment
                and lane.queue = :queue
            limit :counted_max
        ) as dead
    ),
    (select clock.now - oldest.due_at from oldest, clock where oldest.due_at <= clock.now),
    coalesce(
        (
            select queue_minute.ended
            from everhook.queue_minute
            where queue_minute.environment = :environment
                and queue_minute.queue = :queue
                and queue_minute.minute = (select now from clock) / 60000000 - 1
        ),
        0
    );
