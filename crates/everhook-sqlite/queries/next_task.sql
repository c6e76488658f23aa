-- List due tasks of one lane and priority, in the order of leasing. Index: task_ready.
-- No twin: with one writer they are selected first, and `lease_task` leases them one by one.
select environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, cancel, batch, order_key,
    timeout_us, kind_hash
from task
where environment = ?1
    and lane = ?2
    and priority = ?3
    and due_at <= ?4
    and state = 0
order by due_at, id
limit ?5;
