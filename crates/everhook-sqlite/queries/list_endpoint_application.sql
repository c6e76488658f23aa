-- All endpoints of an application, for the cache. Index: the primary key.
-- Differs: one application; its revision was read by `find_application_revision` in the same transaction.
select
    application, id, uid, url, description, state, event_types, channels, headers, throttle_rate, metadata, version, keys,
    created_at, updated_at, revision
from endpoint
where environment = ?1
    and application = ?2
    and deleted_at is null;
