-- List batches in a range of ids. Index: the primary key.
select id, application, name, prefix, metadata, created_at, intake, phase, announced, pending, succeeded, dead, cancelled, skipped
from batch
where environment = ?1
    and id > ?2
    and id < ?3
order by id asc
limit ?4;
