-- Delete the attempts of messages or jobs. Index: the primary key.
-- No twin: SQLite prunes one subject at a time.
delete from everhook.attempt
using old
where attempt.kind = {kind}
    and attempt.environment = any (array[old.environment])
    and attempt.subject = old.id
