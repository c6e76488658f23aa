-- Lease due jobs of locked lanes, queue by queue, in the order of the lanes; within a lane the lower priority first. Index: task_ready.
-- Differs: many lanes at once; the records are read by `find_job_leased`. As in `lease_task`, `owner is null` is all that has to be
-- checked; the rows are found again by their place, which is cheaper than by key, and one that someone has moved meanwhile is left for the
-- next look.
update everhook.task
set state = 1,
    owner = :owner,
    epoch = task.epoch + 1,
    limit_group = case when :limit_groups::bytea[] is not null then (:limit_groups)[array_position(:lane.id, task.lane)] end,
    deadline = case when :watched then :now + task.timeout_us end,
    leased_at = :now
where task.ctid = any (
        array(
            select task.place
            from unnest(:queue)
                cross join lateral (
                    select task.place
                    from unnest(:lane)
                        cross join lateral (
                            select task.place
                            from unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) as level (priority)
                                cross join lateral (
                                    select task.ctid as place
                                    from everhook.task
                                    where task.environment = lane.environment
                                        and task.lane = lane.id
                                        and task.priority = level.priority
                                        and task.due_at <= :now
                                        and task.state = 0
                                    order by task.due_at, task.id
                                    limit lane.capacity
                                ) as task
                            limit lane.capacity
                        ) as task
                    where lane.queue = queue.n
                    limit queue.capacity
                ) as task
            limit :limit
        )
    )
    and task.owner is null
    and task.due_at <= :now
returning {task: Task};
