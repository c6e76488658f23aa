-- The jobs that a session holds. Index: task_owner.
select
    task.environment, task.subject, task.id, task.lane, task.kind, task."trigger", task.priority, task.due_at, task.tries, task.crashes,
    task.epoch, task.cancel, task.batch
from everhook.task
where task.state = 1
    and task.owner = $1
    and task.kind = 1
order by task.subject, task.id;
