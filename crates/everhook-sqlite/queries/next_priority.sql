-- The first priority, from this one on, in which a lane has pending tasks. Index: task_ready.
select priority
from task
where environment = ?1
    and lane = ?2
    and priority >= ?3
    and state = 0
order by priority
limit 1;
