-- The ids of jobs between two ids, filtered by what their records say. Index: the primary key.
-- Differs: read only as far as needed, so that it has no limit; the rest of the filter is asked of `find_job`, under the same snapshot.
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
