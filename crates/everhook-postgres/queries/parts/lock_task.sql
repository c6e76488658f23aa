-- The open tasks of subjects. Index: the primary key.
-- No twin: SQLite has one writer.
select {task: Task}, task.state
from unnest(:wanted)
    join everhook.task on task.environment = any (array[wanted.environment])
        and task.subject = wanted.subject
where task.kind = {kind}
