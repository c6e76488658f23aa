-- Lock the open tasks of jobs for an operator's command. Index: the primary key.
-- No twin: SQLite has one writer. Locks are taken in key order, so that two operators wait for each other instead of
-- deadlocking.
select
    {task: Task}, task.state
from unnest(:wanted)
    join everhook.task on task.environment = any (array[wanted.environment])
        and task.subject = wanted.subject
where task.kind = 1
order by wanted.subject
for update of task;
