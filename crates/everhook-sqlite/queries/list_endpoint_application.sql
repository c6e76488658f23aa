-- All endpoints of an application, for the cache: what fan-out and delivery need of them. Index: endpoint_open.
-- Differs: one application; its revision was read by `find_application_revision` in the same transaction.
select
    id, application, uid, url, '', state, event_types, channels, headers, throttle_rate, '{}', version, keys,
    created_at, updated_at, revision
from endpoint
where environment = ?1
    and application = ?2
    and deleted_at is null;
