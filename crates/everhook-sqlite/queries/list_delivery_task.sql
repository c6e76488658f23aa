-- List the subjects of open tasks in a range, among which a list finds deliveries. Index: the primary key. Tasks of jobs
-- are read, too, so that the limit bounds the cost.
select subject, kind
from task
where environment = :environment
    and subject > :above
    and subject < :below
order by subject :order
limit :limit;
