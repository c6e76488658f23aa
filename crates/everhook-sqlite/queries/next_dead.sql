-- Dead tasks of a lane, of messages between two ids. Index: task_dead.
select subject, id
from task
where environment = ?1
    and lane = ?2
    and subject >= ?3
    and subject < ?4
    and state = 2
order by id
limit ?5;
