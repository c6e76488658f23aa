-- Take over tasks whose owner is not an open session; the sweep settles them as abandoned. Index: task_owner, jumping from owner to owner.
-- Differs: skips what someone is settling at this moment.
with recursive owner (id) as (
    (select task.owner from everhook.task where task.state = 1 order by task.owner limit 1)
    union all
    select (select task.owner from everhook.task where task.state = 1 and task.owner > owner.id order by task.owner limit 1)
    from owner
    where owner.id is not null
),
orphan as materialized (
    select task.environment, task.subject, task.id
    from owner
        join everhook.task on task.owner = owner.id
            and task.state = 1
    where owner.id is not null
        and not exists (
            select 1 from everhook.session where session.id = owner.id and session.closed_at is null
        )
    limit $2
    for update of task skip locked
)
update everhook.task
set owner = $1,
    epoch = task.epoch + 1,
    deadline = null
from orphan
where task.environment = any (array[orphan.environment])
    and task.subject = orphan.subject
    and task.id = orphan.id
returning
    task.environment, task.subject, task.id, task.lane, task.kind, task."trigger", task.priority, task.due_at, task.tries, task.crashes,
    task.epoch, task.cancel, task.batch;
