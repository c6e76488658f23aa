-- Count the attempts of a message that was accepted in a window. Indexes: the primary keys.
-- Differs: one message at a time.
select count(*)
from message
    join attempt on attempt.environment = message.environment
        and attempt.subject = message.id
where message.environment = :environment
    and message.application = :application
    and message.id = :id
    and message.created_at >= :since
    and message.created_at < :until;
