-- List jobs past their deadline, with their holder and the time of their lease. Index: task_deadline.
-- No twin: see `next_orphan`.
select {TaskKey}, {Holding; leased_at = coalesce(leased_at, due_at)}
from task
where state = 1
    and deadline <= :now
order by deadline
limit :limit;
