-- Erase a due payload; its message may already be pruned. Index: the primary key.
-- No twin: PostgreSQL erases payloads in the statement that deletes their due times.
update message
set payload = null
where environment = ?2
    and application = ?3
    and id = ?4;
