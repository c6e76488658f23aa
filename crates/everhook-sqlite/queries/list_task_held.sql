-- List the jobs that a session holds. Index: task_owner.
select environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, cancel, batch, order_key
from task
where owner = ?1
    and state = 1
    and kind = 1;
