-- List the ids of jobs in a range, filtered by their records. Index: the primary key.
-- Differs: no limit, because it is read only as far as needed; `find_job` checks the rest of the filter in the same
-- snapshot.
select id
from job
where environment = :environment
    and id > :above
    and id < :below
    and created_at < :before
    and created_at >= :after
    and (:queue is null or queue = :queue)
    and (:kind is null or kind = :kind)
    and (:tag is null or exists (select 1 from json_each(job.tags) where json_each.value = :tag))
order by id :order;
