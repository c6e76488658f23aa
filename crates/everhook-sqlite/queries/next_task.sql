-- List due tasks of one lane and priority, in the order of leasing. Index: task_ready.
-- No twin: with one writer they are selected first, and `lease_task` leases them one by one.
select {Task}, timeout_us, kind_hash
from task
where environment = :environment
    and lane = :lane
    and priority = :priority
    and due_at <= :due_until
    and state = 0
order by due_at, id
limit :limit;
