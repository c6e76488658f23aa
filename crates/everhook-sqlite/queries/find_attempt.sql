-- Find one attempt of a message. Index: the primary key, over the few attempts of a message.
select {attempt: Attempt}
from attempt
where attempt.environment = :environment
    and attempt.subject = :message
    and attempt.id = :id;
