-- Find the last id that one search of a batch's jobs reads, like `scan_message`. Index: job_batch.
select id
from everhook.job
where environment = :environment
    and id > :above
    and id < :below
    and batch = :batch
order by id :order
limit 1 offset :skipped;
