-- Find the last id that one search of a batch's jobs reads, like `scan_message`. Index: job_batch.
select id
from job
where environment = ?1
    and id > ?2
    and id < ?3
    and batch = ?4
order by id asc
limit 1 offset ?5;
