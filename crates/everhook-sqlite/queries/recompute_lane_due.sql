-- Say when the next task of a lane is due, of whatever priority, after all that was due has been taken, so that nothing waits; in a
-- closing lane, at once. Indexes: the primary key of lane, task_ready.
-- Differs: also says "never" where nothing waits; there is one writer, so that nobody adds to the lane meanwhile.
update lane
set waiting = 0,
    next_due = coalesce(
        (
            select min((
                select case lane.state when 2 then 0 else task.due_at end
                from task
                where task.environment = ?1
                    and task.lane = ?2
                    and task.priority = level.value
                    and task.state = 0
                order by task.due_at
                limit 1
            ))
            from json_each(?3) as level
        ),
        9223372036854775807
    )
where environment = ?1
    and id = ?2;
