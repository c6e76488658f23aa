-- An endpoint by the user's own id. Index: endpoint_uid.
select
    id, application, uid, url, description, state, event_types, channels, headers, throttle_rate, metadata, version, keys,
    created_at, updated_at, revision
from endpoint
where environment = ?1
    and application = ?2
    and uid = ?3
    and deleted_at is null;
