-- List rows that were set aside, by id. Index: the primary key. Long texts are cut, and times are limited to the
-- supported years.
select id, min(max(created_at, 0), 253370764800000000),
    cast(unixepoch('subsec') * 1000000 as integer) - min(max(created_at, 0), 253370764800000000), substr(environment, 1, 300),
    substr(application, 1, 300), substr(event_type, 1, 300), substr(payload, 1, 1048576), substr(event_id, 1, 300),
    substr(channels, 1, 65536), substr(tags, 1, 65536), min(max(deliver_at, 0), 253370764800000000),
    substr(once_key, 1, 300), once_phase, set_aside_at, error
from everhook_outbox_aside
where id > ?1
order by id
limit ?2;
