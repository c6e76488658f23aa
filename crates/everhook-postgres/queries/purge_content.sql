-- Erase the payloads of messages that were accepted before a time. Index: the primary key.
-- Differs: many messages at once.
update everhook.message
set payload = null
from unnest(:wanted)
where message.environment = any (array[wanted.environment])
    and message.application = wanted.application
    and message.id = wanted.id
    and message.created_at < :until
    and message.payload is not null;
