-- Find the last id that one search of jobs reads, like `scan_message`. Index: the primary key.
select id
from everhook.job
where environment = :environment
    and id > :above
    and id < :below
order by id :order
limit 1 offset :skipped;
