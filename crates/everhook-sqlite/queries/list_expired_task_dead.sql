-- Deliveries that were given up, and whose attempts all ended before: those that were due first first. Indexes: task_dead, the primary key of
-- attempt.
-- No twin: chosen while the writer does other work; `prune_task_dead` asks again. The index is named, because nothing but its predicate speaks
-- for it.
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
order by due_at;
