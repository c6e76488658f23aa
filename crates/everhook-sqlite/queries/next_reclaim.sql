-- Tasks whose owner is not an open session; hops from owner to owner, so that what living sessions hold is not walked.
-- Index: task_owner.
with recursive owner (id) as (
    select min(owner)
    from task
    where state = 1
    union all
    select (
        select min(task.owner)
        from task
        where task.state = 1
            and task.owner > owner.id
    )
    from owner
    where owner.id is not null
)
select
    task.environment, task.subject, task.id, task.lane, task.kind, task."trigger", task.priority, task.due_at, task.tries,
    task.crashes, task.epoch, task.cancel
from owner
    cross join task on task.owner = owner.id and task.state = 1
where not exists (
    select 1
    from session
    where session.id = owner.id
        and session.closed_at is null
)
limit ?1;
