-- Find out whether a job is pending or leased. Index: the primary key.
-- Differs: one job at a time.
select 1
from task
where environment = ?1
    and subject = ?2
    and +state in (0, 1);
