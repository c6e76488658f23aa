-- Lock the open tasks of messages for an operator's command, at one endpoint or at all of them. Index: the primary key.
-- No twin: SQLite has one writer, and reads them with `list_task_delivery`.
{include lock_task; kind = 0}
    and (:endpoint::bytea is null or task.lane = :endpoint)
order by task.id
for update of task;
