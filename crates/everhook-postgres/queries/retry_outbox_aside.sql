-- Put rows that were set aside back, under the ids they had. Index: the primary key.
-- Differs: many rows at once, moved by one statement.
with again as (
    delete from everhook.outbox_aside
    where id = any ($1)
    returning *
)
insert into everhook.outbox
    (id, created_at, deliver_at, once_phase, environment, application, event_type, payload, event_id, channels, tags, once_key)
select id, created_at, deliver_at, once_phase, environment, application, event_type, payload, event_id, channels, tags, once_key
from again
on conflict (id) do nothing;
