-- As `lease_job`, for a worker that takes only some kinds: of each lane it looks at a bounded number of due jobs. Different kinds may have
-- the same number: the record decides, and `put_back_job` follows. Index: as there.
-- No twin: SQLite looks at jobs one by one, and at their kinds as it goes.
update everhook.task
set state = 1,
    owner = $10,
    epoch = task.epoch + 1,
    gate = case when $7::bytea[] is not null then ($7)[array_position($4, task.lane)] end,
    deadline = case when $11 then $8 + task.timeout_us end,
    leased_at = $8
where task.ctid = any (
        array(
            select task.place
            from unnest($1::int[], $2::bigint[]) as queue (n, room)
                cross join lateral (
                    select task.place
                    from unnest($3::int[], $4::bytea[], $5::int[], $6::bigint[]) as lane (environment, id, queue, room)
                        cross join lateral (
                            select due.place
                            from (
                                select task.place, task.handler
                                from unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) as level (priority)
                                    cross join lateral (
                                        select task.ctid as place, task.handler
                                        from everhook.task
                                        where task.environment = lane.environment
                                            and task.lane = lane.id
                                            and task.priority = level.priority
                                            and task.due_at <= $8
                                            and task.state = 0
                                        order by task.due_at, task.id
                                        limit $12
                                    ) as task
                                limit $12
                            ) as due
                            where due.handler = any ($13)
                            limit lane.room
                        ) as task
                    where lane.queue = queue.n
                    limit queue.room
                ) as task
            limit $9
        )
    )
    and task.owner is null
    and task.due_at <= $8
returning
    task.environment, task.subject, task.id, task.lane, task.kind, task."trigger", task.priority, task.due_at, task.tries, task.crashes,
    task.epoch, task.cancel, task.batch;
