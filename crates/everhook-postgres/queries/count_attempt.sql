-- Count the attempts of messages that were accepted in a window. Indexes: the primary keys.
-- Differs: many messages at once.
select count(*)
from everhook.message
    join everhook.attempt on attempt.kind = 0
        and attempt.environment = any (array[message.environment])
        and attempt.subject = message.id
where message.environment = :environment
    and message.application = :application
    and message.id = any (:ids)
    and message.created_at >= :since
    and message.created_at < :until;
