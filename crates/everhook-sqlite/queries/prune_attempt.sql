-- Prune the attempts of a message that was just pruned. Index: the primary key.
-- No twin: PostgreSQL prunes them with their messages.
delete from attempt
where environment = ?1
    and subject = ?3;
