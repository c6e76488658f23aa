-- Erase the payloads of messages that were accepted before a time. Index: the primary key.
-- Differs: many messages at once.
update everhook.message
set payload = null
where message.environment = :environment
    and message.application = :application
    and message.id = any (:ids)
    and message.created_at < :until
    and message.payload is not null;
