-- Set the due time of a lane whose due tasks are all leased, over all priorities. Indexes: the primary key of lane,
-- task_ready. The lane is no longer marked as waiting. A closing lane is due at once.
-- Differs: also sets "never" if no task is pending; with one writer no task can be added in between.
update lane
set waiting = 0,
    next_due = coalesce(
        (
            select min((
                select case lane.state when 2 then 0 else task.due_at end
                from task
                where task.environment = :environment
                    and task.lane = :lane
                    and task.priority = level.value
                    and task.state = 0
                order by task.due_at
                limit 1
            ))
            from json_each(:priorities) as level
        ),
        9223372036854775807
    )
where environment = :environment
    and id = :lane;
