-- Prune dead deliveries. Indexes: task_dead, the primary keys.
-- One that blocks waiting deliveries of its key stays. Index: task_order.
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
        and (
            task.order_blocks is not true
            or not exists (
                select
                from everhook.task as waiting
                where waiting.environment = task.environment
                    and waiting.lane = task.lane
                    and waiting.order_key = task.order_key
                    and waiting.state = 0
                    and waiting.due_at = 9223372036854775807
            )
        )
    order by task.environment, task.lane, task.id
    limit :limit
    for update skip locked
)
delete from everhook.task
using old
where task.environment = any (array[old.environment])
    and task.subject = old.subject
    and task.id = old.id;
