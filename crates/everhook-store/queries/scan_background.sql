-- Find the last id that one search of an environment's background tasks reads, like `scan_message`. Index:
-- job_background.
select id
from everhook.job
where environment = 0
    and queue = 'everhook.background'
    and concurrency_key = :owner
    and id > :above
    and id < :below
order by id :order
limit 1 offset :skipped;
