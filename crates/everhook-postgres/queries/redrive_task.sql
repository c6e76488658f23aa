-- Make dead tasks of a lane pending again, with fresh tries. Index: task_dead.
-- Only tasks of ordered lanes keep their limit group while they are dead. They also keep their due time, which is
-- their place. Tasks with a key wait until `promote_task` makes them due.
-- Differs: many rows at once; skips tasks that another transaction is redriving.
with dead as materialized (
    select task.environment, task.subject, task.id
    from everhook.task
    where task.environment = :environment
        and task.lane = :lane
        and task.state = 2
        and task.subject >= :since
        and task.subject < :until
        and (:message::bytea is null or task.subject = :message)
    order by task.id
    limit :limit
    for update skip locked
)
update everhook.task
set state = 0,
    due_at = case
        when task.order_key is not null then 9223372036854775807
        when task.limit_group is null then :now
        else task.due_at
    end,
    tries = 0,
    crashes = 0,
    cancel = false
from dead
where task.environment = any (array[dead.environment])
    and task.subject = dead.subject
    and task.id = dead.id
returning task.due_at, task.order_key;
