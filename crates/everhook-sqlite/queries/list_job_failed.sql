-- List the first dead jobs of a batch. Index: task_dead_batch.
select subject
from task
where environment = ?1
    and batch = ?2
    and state = 2
order by subject
limit ?3;
