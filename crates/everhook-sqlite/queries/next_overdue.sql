-- List jobs past their deadline, with their holder and the time of their lease. Index: task_deadline.
-- No twin: see `next_orphan`.
select environment, subject, id, owner, max(coalesce(leased_at, 0), due_at)
from task
where state = 1
    and deadline <= ?1
order by deadline
limit ?2;
