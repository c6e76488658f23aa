-- An endpoint by id, deleted or not. Index: the primary key.
select
    id, application, uid, url, description, state, event_types, channels, headers, throttle_rate, metadata, version, keys,
    created_at, updated_at, revision, deleted_at
from endpoint
where environment = ?1
    and application = ?2
    and id = ?3;
