-- Find messages of applications. Index: the primary key.
-- Differs: many rows at once.
select
    message.environment, {message: Message}
from unnest(:wanted)
    join everhook.message on message.environment = any (array[wanted.environment])
        and message.application = wanted.application
        and message.id = wanted.id;
