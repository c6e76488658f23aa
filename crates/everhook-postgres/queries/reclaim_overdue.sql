-- Take over jobs past their timeout whose holders the store watches. Indexes: task_deadline, the primary keys.
-- No twin: SQLite selects with `next_overdue` and takes over with `reclaim_task`. Skips tasks that another transaction
-- is settling.
with clock as materialized (
    select everhook.now_us() as now
),
overdue as materialized (
    select task.environment, task.subject, task.id, task.owner, coalesce(task.leased_at, task.due_at) as since
    from everhook.task
    where task.state = 1
        and task.deadline <= (select now from clock)
    order by task.deadline
    limit :limit
    for update skip locked
)
update everhook.task
set owner = :owner,
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
    {task: Task}, overdue.owner, overdue.since, {job: Job};
