-- Forget what a session took that was just forgotten. Index: the primary key.
-- No twin: PostgreSQL forgets it with its session.
delete from worker
where session = ?1;
