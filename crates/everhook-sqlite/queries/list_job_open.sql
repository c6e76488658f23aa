-- List the ids of pending jobs in a range. Index: the primary key of task.
-- Differs: no limit, because it is read only as far as needed; `find_job` checks the rest of the filter in the same
-- snapshot.
select subject
from task
where environment = :environment
    and subject > :above
    and subject < :below
    and +state = 0
    and kind = 1
order by subject :order;
