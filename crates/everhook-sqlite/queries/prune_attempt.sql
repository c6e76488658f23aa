-- Forget the attempts of a message that was just forgotten. Index: the primary key.
-- No twin: PostgreSQL forgets them with their messages.
delete from attempt
where environment = ?1
    and subject = ?3;
