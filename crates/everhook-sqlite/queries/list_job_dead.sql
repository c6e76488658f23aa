-- The ids of dead jobs between two ids. Index: task_dead_job.
-- Differs: read only as far as needed, so that it has no limit; the rest of the filter is asked of `find_job`, under the same snapshot.
select subject
from task
where environment = ?1
    and subject > ?2
    and subject < ?3
    and state = 2
    and kind = 1
order by subject asc
;
