-- Find the last id that one search of an environment's background tasks reads, like `scan_message`. Index:
-- job_background.
select id
from job
where environment = 0
    and queue = 'everhook.background'
    and concurrency_key = ?1
    and id > ?2
    and id < ?3
order by id asc
limit 1 offset ?4;
