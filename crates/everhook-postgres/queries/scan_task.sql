-- How far one search of open jobs looks among all tasks, as `scan_message`. Index: the primary key.
select subject
from everhook.task
where environment = $1
    and subject > $2
    and subject < $3
order by subject asc
limit 1 offset $4;
