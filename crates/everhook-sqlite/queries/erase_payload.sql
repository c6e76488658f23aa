-- Erase a payload that was due; its message may be gone already. Index: the primary key.
-- No twin: PostgreSQL erases payloads in the statement that forgets their due times.
update message
set payload = null
where environment = ?2
    and application = ?3
    and id = ?4;
