-- Set a row aside that cannot be relayed, with its error. Index: the primary key.
-- Differs: one row at a time; the caller deletes the old row with a separate statement.
insert into everhook_outbox_aside
    (id, created_at, environment, application, event_type, payload, event_id, channels, tags, deliver_at, once_key, once_phase, error)
select id, created_at, environment, application, event_type, payload, event_id, channels, tags, deliver_at, once_key, once_phase, ?2
from everhook_outbox
where id = ?1
on conflict (id) do update
set created_at = excluded.created_at,
    set_aside_at = excluded.set_aside_at,
    environment = excluded.environment,
    application = excluded.application,
    event_type = excluded.event_type,
    payload = excluded.payload,
    event_id = excluded.event_id,
    channels = excluded.channels,
    tags = excluded.tags,
    deliver_at = excluded.deliver_at,
    once_key = excluded.once_key,
    once_phase = excluded.once_phase,
    error = excluded.error;
