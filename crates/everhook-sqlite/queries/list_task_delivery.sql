-- List the open tasks of a message for an operator's command, at one endpoint or at all of them. Index: the primary
-- key.
-- No twin: PostgreSQL locks them with `lock_task_delivery`.
select
    {task: Task}, task.state
from task
where task.environment = :environment
    and task.subject = :message
    and task.kind = 0
    and (:endpoint is null or task.lane = :endpoint)
order by task.id;
