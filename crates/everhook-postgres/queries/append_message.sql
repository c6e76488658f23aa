-- Write messages.
-- Differs: many rows at once.
insert into everhook.message
    (environment, application, id, event_type, event_id, channels, tags, payload, created_at, rest)
select environment, application, id, event_type, event_id, channels, tags, payload, :created_at, rest
from unnest(:fresh);
