-- List the ids of jobs in a range, filtered by their records. Index: the primary key.
-- Differs: no limit, because it is read only as far as needed; `find_job` checks the rest of the filter in the same
-- snapshot.
select id
from job
where environment = ?1
    and id > ?2
    and id < ?3
    and created_at < ?4
    and created_at >= ?5
    and (?6 is null or queue = ?6)
    and (?7 is null or kind = ?7)
    and (?8 is null or exists (select 1 from json_each(job.tags) where json_each.value = ?8))
order by id asc
;
