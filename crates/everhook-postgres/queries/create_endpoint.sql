-- Add an endpoint, unless its uid is taken.
insert into everhook.endpoint (
    environment, id, application, uid, url, description, state, event_types, channels, headers, throttle_rate, metadata, version, keys,
    created_at, updated_at, revision
)
select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, clock.now, clock.now, 1
from (select everhook.now_us() as now) as clock
on conflict do nothing
returning
    id, application, uid, url, description, state, event_types, channels, headers, throttle_rate, metadata, version, keys, created_at,
    updated_at, revision;
