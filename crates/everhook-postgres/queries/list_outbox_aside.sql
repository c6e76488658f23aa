-- Rows that were set aside, by id. Index: the primary key.
select id, (extract(epoch from created_at) * 1000000)::bigint,
    (extract(epoch from clock_timestamp() - created_at) * 1000000)::bigint,
    environment, application, event_type, payload, event_id, channels, tags,
    (extract(epoch from deliver_at) * 1000000)::bigint, once_key, once_phase,
    (extract(epoch from set_aside_at) * 1000000)::bigint, error
from everhook.outbox_aside
where id > $1
order by id
limit $2;
