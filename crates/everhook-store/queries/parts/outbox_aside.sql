-- Replaces a row that was set aside before under the same id. Index: the primary key.
on conflict (id) do update
set created_at = excluded.created_at,
    set_aside_at = excluded.set_aside_at,
    deliver_at = excluded.deliver_at,
    once_phase = excluded.once_phase,
    environment = excluded.environment,
    application = excluded.application,
    event_type = excluded.event_type,
    payload = excluded.payload,
    event_id = excluded.event_id,
    channels = excluded.channels,
    tags = excluded.tags,
    once_key = excluded.once_key,
    error = excluded.error
