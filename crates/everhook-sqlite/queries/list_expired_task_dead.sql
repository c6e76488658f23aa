-- List dead deliveries whose attempts all ended before a time. Indexes: task_dead, the primary key of attempt.
-- One that blocks waiting deliveries of its key stays. Index: task_order.
-- No twin: a reader selects them while the writer does other work; `prune_task_dead` checks again. The index is named,
-- because the planner does not choose a partial index by its predicate alone.
select environment, subject, id, 0
from task indexed by task_dead
where state = 2
    and kind = 0
    and due_at < ?1
    and not exists (
        select 1
        from attempt
        where attempt.environment = task.environment
            and attempt.subject = task.subject
            and attempt.task = task.id
            and attempt.started_at + attempt.duration_us >= ?1
    )
    and (
        order_blocks is not true
        or not exists (
            select 1
            from task as waiting indexed by task_order
            where waiting.environment = task.environment
                and waiting.lane = task.lane
                and waiting.order_key is not null
                and waiting.order_key = task.order_key
                and waiting.state = 0
                and waiting.due_at = 9223372036854775807
        )
    )
order by due_at;
