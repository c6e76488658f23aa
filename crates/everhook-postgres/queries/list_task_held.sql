-- List the jobs that a session holds. Index: task_owner.
select
    {task: Task}
from everhook.task
where task.state = 1
    and task.owner = :owner
    and task.kind = 1
order by task.subject, task.id;
