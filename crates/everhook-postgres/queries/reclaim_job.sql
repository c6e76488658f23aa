-- Take over jobs whose time is over, of those that the store watches. Indexes: task_deadline, the primary keys.
-- No twin: SQLite chooses by `next_overdue` and takes over by `reclaim_task`. Skips what someone is settling at this moment.
with clock as materialized (
    select everhook.now_us() as now
),
overdue as materialized (
    select task.environment, task.subject, task.id, task.owner, greatest(task.leased_at, task.due_at) as since
    from everhook.task
    where task.state = 1
        and task.deadline <= (select now from clock)
    order by task.deadline
    limit $2
    for update skip locked
)
update everhook.task
set owner = $1,
    epoch = task.epoch + 1,
    leased_at = (select now from clock),
    deadline = null
from overdue
    left join lateral (
        select *
        from everhook.job
        where job.environment = overdue.environment
            and job.id = overdue.subject
        limit 1
    ) as job on true
where task.environment = any (array[overdue.environment])
    and task.subject = overdue.subject
    and task.id = overdue.id
returning
    task.environment, task.subject, task.id, task.lane, task.kind, task."trigger", task.priority, task.due_at, task.tries, task.crashes,
    task.epoch, task.cancel, task.batch, overdue.owner, overdue.since, job.queue, job.kind, job.name, job.payload, job.priority, job.concurrency_key, job.tags, job.batch, job.rest;
