-- Reschedule pending or dead jobs, some with fresh tries. Index: the primary key.
-- Differs: many rows at once.
update everhook.task
set state = 0,
    due_at = moved.due_at,
    tries = case when moved.fresh then 0 else task.tries end,
    crashes = case when moved.fresh then 0 else task.crashes end,
    cancel = task.cancel and not moved.fresh
from unnest(:moved)
where task.environment = any (array[moved.environment])
    and task.subject = moved.subject
    and task.id = moved.id;
