-- List the first dead jobs of a batch. Index: task_dead_batch.
select subject
from task
where environment = :environment
    and batch = :batch
    and state = 2
order by subject
limit :limit;
