-- Find the last subject that one search of open jobs reads among all tasks, like `scan_message`. Index: the primary
-- key.
select subject
from task
where environment = ?1
    and subject > ?2
    and subject < ?3
order by subject asc
limit 1 offset ?4;
