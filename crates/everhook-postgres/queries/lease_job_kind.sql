-- As `lease_job`, for a worker that takes only some kinds: of each lane it looks at a bounded number of due jobs. Different kinds may have
-- the same number: the record decides, and `release_job_lease` follows. Index: as there.
-- No twin: SQLite looks at jobs one by one, and at their kinds as it goes.
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
                            select due.place
                            from (
                                select task.place, task.kind_hash
                                from unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) as level (priority)
                                    cross join lateral (
                                        select task.ctid as place, task.kind_hash
                                        from everhook.task
                                        where task.environment = lane.environment
                                            and task.lane = lane.id
                                            and task.priority = level.priority
                                            and task.due_at <= :now
                                            and task.state = 0
                                        order by task.due_at, task.id
                                        limit :scanned
                                    ) as task
                                limit :scanned
                            ) as due
                            where due.kind_hash = any (:kind_hashes)
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
