-- List open and recently closed sessions with the number of their tasks, oldest first. Scans sessions, which are few;
-- index: task_owner.
select session.id, session.node, session.role, session.version, session.lease_us, session.started_at,
    session.lease_until - session.lease_us, session.closed_at,
    (select count(*)::int from everhook.task where task.state = 1 and task.owner = session.id)
from everhook.session
where session.closed_at is null
    or session.closed_at > :now - :closed_within
order by session.started_at, session.id
limit :limit;
