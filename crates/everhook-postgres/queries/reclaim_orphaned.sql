-- Take over tasks whose owner is not an open session; the sweep settles them as abandoned. Scans sessions, which are
-- few; indexes: task_owner, in the gaps between open sessions, and the primary key of task.
-- The statement reads only the gaps between the ids of open sessions, never the tasks of these. Every delivery leaves a
-- dead entry in task_owner, and during a long transaction a walk from owner to owner would read millions of them.
-- Closed sessions, and owners without a session row, lie in the gaps.
-- No twin: SQLite selects with `next_orphan` and takes over with `reclaim_task`. Skips tasks that another transaction
-- is settling.
with open_session as materialized (
    select session.id
    from everhook.session
    where session.closed_at is null
),
gap as materialized (
    select coalesce(lag(open_session.id) over (order by open_session.id), '\x') as above, open_session.id as below
    from open_session
    union all
    select coalesce((select open_session.id from open_session order by open_session.id desc limit 1), '\x'), decode(repeat('ff', 21), 'hex')
),
orphan as materialized (
    select held.environment, held.subject, held.id, held.owner, held.since
    from gap
        cross join lateral (
            select task.environment, task.subject, task.id, task.owner, coalesce(task.leased_at, task.due_at) as since
            from everhook.task
            where task.state = 1
                and task.owner > gap.above
                and task.owner < gap.below
            limit :limit
            for update skip locked
        ) as held
    limit :limit
)
update everhook.task
set owner = :owner,
    epoch = task.epoch + 1,
    leased_at = (select everhook.now_us()),
    deadline = null
from orphan
where task.environment = any (array[orphan.environment])
    and task.subject = orphan.subject
    and task.id = orphan.id
returning
    {task: Task}, orphan.owner, orphan.since;
