-- List open sessions that take jobs of an environment, oldest first. Indexes: worker_environment, the primary key,
-- task_owner.
select session.id, session.node, session.role, session.version, session.lease_us, session.started_at,
    session.lease_until - session.lease_us, session.closed_at,
    (select count(*)::int from everhook.task where task.state = 1 and task.owner = session.id),
    {worker: Takes}
from everhook.worker
    join everhook.session on session.id = worker.session
where worker.environment = :environment
    and session.closed_at is null
order by session.started_at, session.id
limit :limit;
