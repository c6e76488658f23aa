-- An application's endpoints between two ids. Index: the primary key.
select
    id, application, uid, url, description, state, event_types, channels, headers, throttle_rate, metadata, version, keys,
    created_at, updated_at, revision
from endpoint
where environment = ?1
    and application = ?2
    and id > ?3
    and id < ?4
    and deleted_at is null
order by id asc
limit ?5;
