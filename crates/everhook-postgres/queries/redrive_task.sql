-- Put dead tasks of a lane back to pending with fresh tries. Index: task_dead.
-- Differs: many rows at once; skips what someone else puts back at this moment.
with dead as materialized (
    select task.environment, task.subject, task.id
    from everhook.task
    where task.environment = $1
        and task.lane = $2
        and task.state = 2
        and task.subject >= $3
        and task.subject < $4
        and ($5::bytea is null or task.subject = $5)
    order by task.id
    limit $6
    for update skip locked
)
update everhook.task
set state = 0,
    due_at = $7,
    tries = 0,
    crashes = 0
from dead
where task.environment = any (array[dead.environment])
    and task.subject = dead.subject
    and task.id = dead.id;
