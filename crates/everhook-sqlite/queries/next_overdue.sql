-- Jobs whose time is over, with their holder and since when it held them. Index: task_deadline.
-- No twin: as `next_orphan`.
select environment, subject, id, owner, max(coalesce(leased_at, 0), due_at)
from task
where state = 1
    and deadline <= ?1
order by deadline
limit ?2;
