-- List closed sessions that hold no task. Scans sessions, which are few; index: task_owner.
-- No twin: a reader selects them while the writer does other work; a closed session never gets a task again.
select id, 0
from session
where closed_at < ?1
    and not exists (select 1 from task where task.state = 1 and task.owner = session.id)
order by closed_at;
