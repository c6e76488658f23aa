-- Prune closed sessions that hold no task, with their workers. Scans sessions, which are few; index: task_owner.
with old as materialized (
    select session.id
    from everhook.session
    where session.closed_at < :before
        and (
            select 1
            from everhook.task
            where task.state = 1
                and task.owner = session.id
            limit 1
        ) is null
    order by session.id
    limit :limit
    for update skip locked
),
worker as (
    delete from everhook.worker
    using old
    where worker.session = old.id
)
delete from everhook.session
using old
where session.id = old.id;
