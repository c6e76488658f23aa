-- Find one attempt of a message. Index: the primary key, by its first columns.
select {attempt: Attempt}
from everhook.attempt
where attempt.kind = 0
    and attempt.environment = :environment
    and attempt.subject = :message
    and attempt.id = :id;
