-- List jobs past their deadline, with their holder and the time of their lease. Index: task_deadline.
-- No twin: see `next_orphan`.
select {TaskKey}, {Holding; leased_at = max(coalesce(leased_at, 0), due_at)}
from task
where state = 1
    and deadline <= :now
order by deadline
limit :limit;
