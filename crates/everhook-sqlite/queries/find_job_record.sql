-- A job as it was written, for whoever runs it. Index: the primary key.
-- No twin: PostgreSQL reads all records of a lease at once.
select id, queue, kind, name, priority, concurrency_key, tags, batch, rest, created_at, payload
from job
where environment = ?1
    and id = ?2;
