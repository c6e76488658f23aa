-- List tasks whose owner is not an open session, with their holder and the time of their lease. Index: task_owner. The
-- recursion skips from owner to owner, so that the tasks of open sessions are not read.
-- No twin: `returning` cannot return the previous holder; PostgreSQL's `reclaim_orphaned` does both at once.
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
select {orphan: TaskKey}, {orphan: Holding; leased_at = coalesce(orphan.leased_at, orphan.due_at)}
from owner
    cross join task as orphan on orphan.owner = owner.id and orphan.state = 1
where not exists (
        select 1
        from session
        where session.id = owner.id
            and session.closed_at is null
    )
limit :limit;
