-- Set a row aside that cannot be relayed, with its error. Index: the primary key.
-- Differs: one row at a time; the caller deletes the old row with a separate statement.
insert into everhook_outbox_aside
    (id, created_at, environment, application, event_type, payload, event_id, channels, tags, deliver_at, once_key, once_phase, error)
select id, created_at, environment, application, event_type, payload, event_id, channels, tags, deliver_at, once_key, once_phase, :error
from everhook_outbox
where id = :id
{include outbox_aside};
