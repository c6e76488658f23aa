-- Find a message that was accepted before a time and has a payload. Index: the primary key.
-- Differs: one message at a time.
select id
from message
where environment = :environment
    and application = :application
    and id = :id
    and created_at < :until
    and payload is not null;
