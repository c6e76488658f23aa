-- Find the last subject that one search of open jobs reads among all tasks, like `scan_message`. Index: the primary
-- key.
select subject
from everhook.task
where environment = :environment
    and subject > :above
    and subject < :below
order by subject :order
limit 1 offset :skipped;
