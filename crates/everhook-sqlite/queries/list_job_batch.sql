-- List the ids of a batch's jobs in a range. Index: job_batch.
-- Differs: no limit, because it is read only as far as needed; `find_job` checks the rest of the filter in the same
-- snapshot.
select id
from job
where environment = ?1
    and batch = ?4
    and id > ?2
    and id < ?3
order by id asc
;
