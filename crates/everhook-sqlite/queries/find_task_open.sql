-- Whether a job waits or runs. Index: the primary key.
-- Differs: one at a time.
select 1
from task
where environment = ?1
    and subject = ?2
    and +state in (0, 1);
