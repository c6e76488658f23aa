-- Find the record of a job for its holder. Index: the primary key.
-- No twin: PostgreSQL reads all records of a lease at once.
select id, queue, kind, name, priority, concurrency_key, tags, batch, rest, created_at, payload
from job
where environment = ?1
    and id = ?2;
