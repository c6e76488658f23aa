-- Messages of applications. Index: the primary key.
-- Differs: many rows at once.
select
    message.environment, message.application, message.id, message.event_type, message.event_id, message.channels, message.tags,
    message.payload, message.created_at, message.rest
from unnest($1::int[], $2::bytea[], $3::bytea[]) as wanted (environment, application, id)
    join everhook.message on message.environment = any (array[wanted.environment])
        and message.application = wanted.application
        and message.id = wanted.id;
