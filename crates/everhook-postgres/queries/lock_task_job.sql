-- Lock the open tasks of jobs for an operator's command. Index: the primary key.
-- No twin: SQLite has one writer. Locks are taken in key order, so that two operators wait for each other instead of
-- deadlocking.
{include lock_task; kind = 1}
order by wanted.subject
for update of task;
