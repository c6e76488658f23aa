-- Find out whether a job is pending or leased. Index: the primary key.
-- Differs: one job at a time.
select subject
from task
where environment = :environment
    and subject = :job
    and +state in (0, 1);
