-- Delete the worker of a session that was just pruned. Index: the primary key.
-- No twin: PostgreSQL deletes it with its session.
delete from worker
where session = ?1;
