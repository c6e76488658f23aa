-- Take over tasks whose owner is not an open session; the sweep settles them as abandoned. Index: task_owner, jumping from owner to
-- owner, so that what living sessions hold is not walked.
-- Differs: no locks, because there is one writer.
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
update task
set owner = ?1,
    epoch = epoch + 1
where (environment, subject, id) in (
    select orphan.environment, orphan.subject, orphan.id
    from owner
        cross join task as orphan on orphan.owner = owner.id and orphan.state = 1
    where not exists (
        select 1
        from session
        where session.id = owner.id
            and session.closed_at is null
    )
    limit ?2
)
returning environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, cancel, batch;
