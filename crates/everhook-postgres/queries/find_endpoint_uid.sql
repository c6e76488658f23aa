-- An endpoint by uid. Index: endpoint_uid.
select
    id, application, uid, url, description, state, event_types, channels, headers, throttle_rate, metadata, version, keys, created_at,
    updated_at, revision, deleted_at
from everhook.endpoint
where environment = $1
    and application = $2
    and uid = $3
    and uid is not null
    and deleted_at is null;
