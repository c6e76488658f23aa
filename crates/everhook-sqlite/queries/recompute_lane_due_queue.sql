-- Say when the next task of a queue's lane is due, of whatever priority, after all that was due has been taken. Indexes: the primary key of
-- lane, task_ready.
-- Differs: also says "never" where nothing waits; there is one writer, so that nobody adds to the lane meanwhile.
with priority (number) as (
    values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)
)
update lane
set next_due = coalesce(
    (
        select min((
            select task.due_at
            from task
            where task.environment = ?1
                and task.lane = ?2
                and task.priority = priority.number
                and task.state = 0
            order by task.due_at
            limit 1
        ))
        from priority
    ),
    9223372036854775807
)
where environment = ?1
    and id = ?2;
