-- Find a worker of an environment, even with a closed session. Indexes: the primary keys, task_owner.
select session.id, session.node, session.role, session.version, session.lease_us, session.started_at,
    session.lease_until - session.lease_us, session.closed_at,
    (select count(*) from task where task.state = 1 and task.owner = session.id),
    {worker: Takes}
from worker
    join session on session.id = worker.session
where worker.session = :session
    and worker.environment = :environment;
