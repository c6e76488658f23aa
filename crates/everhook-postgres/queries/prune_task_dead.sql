-- Prune dead deliveries. Indexes: task_dead, the primary keys.
-- Differs: skips tasks that an operator is redriving.
with old as materialized (
    select task.environment, task.subject, task.id
    from everhook.task
    where task.state = 2
        and task.kind = 0
        and (
            select 1
            from everhook.attempt
            where attempt.kind = 0
                and attempt.environment = task.environment
                and attempt.subject = task.subject
                and attempt.task = task.id
                and attempt.started_at + attempt.duration_us >= :before
            limit 1
        ) is null
    order by task.environment, task.lane, task.id
    limit :limit
    for update skip locked
)
delete from everhook.task
using old
where task.environment = any (array[old.environment])
    and task.subject = old.subject
    and task.id = old.id;
