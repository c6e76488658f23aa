-- Find the messages that were accepted before a time and have a payload. Index: the primary key.
-- Differs: many messages at once.
select message.id
from unnest(:wanted)
    join everhook.message on message.environment = any (array[wanted.environment])
        and message.application = wanted.application
        and message.id = wanted.id
where message.created_at < :until
    and message.payload is not null;
