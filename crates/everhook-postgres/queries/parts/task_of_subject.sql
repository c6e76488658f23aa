-- An open or dead task of a message or job. Index: the primary key.
-- No twin: SQLite compares one subject at a time.
select 1
from everhook.task
where task.environment = {subject}.environment
    and task.subject = {subject}.id
limit 1
