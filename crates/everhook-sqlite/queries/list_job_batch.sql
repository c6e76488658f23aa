-- The ids of a batch's jobs between two ids. Index: job_batch.
-- Differs: read only as far as needed, so that it has no limit; the rest of the filter is asked of `find_job`, under the same snapshot.
select id
from job
where environment = ?1
    and batch = ?4
    and id > ?2
    and id < ?3
order by id asc
;
