-- Put rows that were set aside back under their old ids; if another row has the id now, they stay. Index: the primary
-- key.
-- Differs: many rows at once, moved by one statement.
with aside as materialized (
    select *
    from everhook.outbox_aside
    where id = any (:ids)
    for update
), again as (
    insert into everhook.outbox
        (id, created_at, deliver_at, once_phase, environment, application, event_type, payload, event_id, channels, tags, once_key)
    select id, created_at, deliver_at, once_phase, environment, application, event_type, payload, event_id, channels, tags, once_key
    from aside
    on conflict (id) do nothing
    returning id
)
delete from everhook.outbox_aside
using again
where outbox_aside.id = any (array[again.id]);
