-- List the ids of an environment's background tasks in a range. Index: job_background.
-- Differs: no limit, because it is read only as far as needed; `find_job` checks the filter in the same snapshot.
select id
from job
where environment = 0
    and queue = 'everhook.background'
    and concurrency_key = :owner
    and id > :above
    and id < :below
order by id :order;
