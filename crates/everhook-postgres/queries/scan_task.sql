-- How far one search of open jobs looks among all tasks, as `scan_message`. Index: the primary key.
select subject
from everhook.task
where environment = :environment
    and subject > :above
    and subject < :below
order by subject :order
limit 1 offset :skipped;
