-- Erase the payload of a message that was accepted before a time. Index: the primary key.
-- Differs: one message at a time.
update message
set payload = null
where environment = :environment
    and application = :application
    and id = :id
    and created_at < :until
    and payload is not null;
