-- Lease due tasks of locked lanes, feed by feed, in the order of the lanes. Index: task_ready. Within a lane, the task
-- with the lower priority number goes first. `scanned` bounds the tasks that are read per lane when only some kinds are
-- asked for. Two kinds may have the same hash: the record decides, and `release_task` puts foreign kinds back.
-- Each limit is inside its lateral subquery, so that a lane with a large backlog is read only up to its own room. The
-- scan starts at the lane's floor: before it, the index may hold many dead entries of tasks leased earlier.
-- The update finds the rows by ctid, which is cheaper than by key. A row that another transaction has updated since the
-- scan no longer matches; the next lease finds it again.
-- Differs: many lanes at once. `owner is null` is the only check of the state, because only the holder of a lane's lock
-- leases its tasks. A check of `state` would let the planner walk a whole index.
update everhook.task
set state = 1,
    owner = :owner,
    epoch = task.epoch + 1,
    limit_group = case
        when cardinality(:counted.id) > 0 then (
            select counted.limit_group
            from unnest(:counted)
            where counted.environment = task.environment
                and counted.id = task.lane
        )
    end,
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
    and (task.due_at <= :now or task.lane = any (:early::bytea[]))
returning {task: Task};
