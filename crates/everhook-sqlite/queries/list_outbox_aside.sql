-- Rows that were set aside, by id. Index: the primary key.
select id, created_at, cast(unixepoch('subsec') * 1000000 as integer) - created_at, environment, application, event_type, payload,
    event_id, channels, tags, deliver_at, once_key, once_phase, set_aside_at, error
from everhook_outbox_aside
where id > ?1
order by id
limit ?2;
