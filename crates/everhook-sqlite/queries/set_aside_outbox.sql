-- Keep a row that cannot be relayed, with its error; the caller deletes it where it was. Index: the primary key.
-- Differs: one row at a time, and a statement of its own deletes it.
insert into everhook_outbox_aside
    (id, created_at, environment, application, event_type, payload, event_id, channels, tags, deliver_at, once_key, once_phase, error)
select id, created_at, environment, application, event_type, payload, event_id, channels, tags, deliver_at, once_key, once_phase, ?2
from everhook_outbox
where id = ?1
on conflict (id) do update
set error = excluded.error,
    set_aside_at = excluded.set_aside_at;
