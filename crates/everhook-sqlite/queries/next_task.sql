-- Pending tasks of a lane in one priority, in the order in which they are due. Index: task_ready.
select subject, id, kind, "trigger", due_at, tries, crashes, epoch, cancel
from task
where environment = ?1
    and lane = ?2
    and priority = ?3
    and state = 0
order by due_at, id
limit ?4;
