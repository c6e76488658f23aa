-- Lease due tasks of locked lanes, feed by feed, in the order of the lanes; within a lane the lower priority first. Of each lane a bounded
-- number is looked at, for whoever takes only some kinds; different kinds may have the same number: the record decides, and
-- `release_task` follows. Index: task_ready.
-- Differs: many lanes at once. Nothing but `owner is null` has to be checked, because only the holder of a lane's lock takes its tasks; a
-- check of `state` would offer the planner an index to walk from end to end. The rows are found again by their place, which is cheaper
-- than by key; a row that someone has moved meanwhile is left for the next look.
update everhook.task
set state = 1,
    owner = :owner,
    epoch = task.epoch + 1,
    limit_group = case when :limit_groups::bytea[] is not null then (:limit_groups)[array_position(:lane.id, task.lane)] end,
    deadline = case when :watched then :now + task.timeout_us end,
    leased_at = :now
where task.ctid = any (
        array(
            select due.place
            from unnest(:feed)
                cross join lateral (
                    select due.place
                    from unnest(:lane)
                        cross join lateral (
                            select due.place
                            from (
                                select task.place, task.kind_hash
                                from unnest((:priorities::smallint[])) as level (priority)
                                    cross join lateral (
                                        select task.ctid as place, task.kind_hash
                                        from everhook.task
                                        where task.environment = lane.environment
                                            and task.lane = lane.id
                                            and task.priority = level.priority
                                            and task.due_at >= lane.floor
                                            and task.due_at <= lane.due_until
                                            and task.state = 0
                                        order by task.due_at, task.id
                                        limit lane.scanned
                                    ) as task
                                limit lane.scanned
                            ) as due
                            where :kind_hashes::integer[] is null
                                or due.kind_hash = any (:kind_hashes)
                            limit lane.capacity
                        ) as due
                    where lane.feed = feed.n
                    limit feed.capacity
                ) as due
            limit :limit
        )
    )
    and task.owner is null
    and (task.due_at <= :now or task.lane = any (:closing::bytea[]))
returning {task: Task};
