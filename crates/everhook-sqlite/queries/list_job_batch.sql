-- List the ids of a batch's jobs in a range. Index: job_batch.
-- Differs: no limit, because it is read only as far as needed; `find_job` checks the rest of the filter in the same
-- snapshot.
select id
from job
where environment = :environment
    and batch = :batch
    and id > :above
    and id < :below
order by id :order;
