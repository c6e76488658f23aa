-- Find the last id that one search of dead jobs reads, like `scan_message`. Index: task_dead_job.
select subject
from everhook.task
where environment = :environment
    and subject > :above
    and subject < :below
    and state = 2
    and kind = 1
order by subject :order
limit 1 offset :skipped;
