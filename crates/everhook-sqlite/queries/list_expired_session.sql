-- Sessions that were closed and hold nothing. Scans sessions, which are few; index: task_owner.
-- No twin: chosen while the writer does other work; nothing is ever held by a closed session again.
select id, 0
from session
where closed_at < ?1
    and not exists (select 1 from task where task.state = 1 and task.owner = session.id)
order by closed_at;
