-- Find the last id that one search of jobs reads, like `scan_message`. Index: the primary key.
select id
from job
where environment = ?1
    and id > ?2
    and id < ?3
order by id asc
limit 1 offset ?4;
