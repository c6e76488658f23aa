-- Find the last id that one search of dead jobs reads, like `scan_message`. Index: task_dead_job.
select subject
from task
where environment = ?1
    and subject > ?2
    and subject < ?3
    and state = 2
    and kind = 1
order by subject asc
limit 1 offset ?4;
