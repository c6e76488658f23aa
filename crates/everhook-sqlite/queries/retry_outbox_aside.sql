-- Put a row that was set aside back under its old id, unless another row has the id now. Index: the primary key.
-- Differs: one row at a time; the caller deletes the old row with a separate statement.
insert into everhook_outbox
    (id, created_at, environment, application, event_type, payload, event_id, channels, tags, deliver_at, once_key, once_phase)
select id, created_at, environment, application, event_type, payload, event_id, channels, tags, deliver_at, once_key, once_phase
from everhook_outbox_aside
where id = :id
on conflict (id) do nothing;
