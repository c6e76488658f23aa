-- Reschedule pending or dead tasks, some with fresh tries. Index: the primary key.
-- A pending or dead task with a limit group is a delivery of an ordered lane, which keeps its place. A redriven task
-- with a key waits until `promote_task` makes it due.
-- Differs: many rows at once.
update everhook.task
set state = 0,
    due_at = case
        when task.order_key is not null and moved.fresh then 9223372036854775807
        when task.order_key is not null or task.limit_group is null then moved.due_at
        else task.due_at
    end,
    tries = case when moved.fresh then 0 else task.tries end,
    crashes = case when moved.fresh then 0 else task.crashes end,
    cancel = task.cancel and not moved.fresh
from unnest(:moved)
where task.environment = any (array[moved.environment])
    and task.subject = moved.subject
    and task.id = moved.id;
