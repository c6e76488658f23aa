-- Find the jobs that are pending or leased. Index: the primary key.
-- Differs: many rows at once.
select task.environment, task.subject
from unnest(:wanted)
    join everhook.task on task.environment = any (array[wanted.environment])
        and task.subject = wanted.subject
where task.state in (0, 1);
