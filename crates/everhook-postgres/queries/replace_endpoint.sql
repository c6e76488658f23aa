-- Change an endpoint that nobody changed meanwhile. Index: the primary key.
update everhook.endpoint
set uid = $5,
    url = $6,
    description = $7,
    state = $8,
    event_types = $9,
    channels = $10,
    headers = $11,
    throttle_rate = $12,
    metadata = $13,
    version = $14,
    keys = $15,
    updated_at = everhook.now_us(),
    revision = revision + 1
where environment = $1
    and application = $2
    and id = $3
    and revision = $4
    and deleted_at is null
returning
    id, application, uid, url, description, state, event_types, channels, headers, throttle_rate, metadata, version, keys, created_at,
    updated_at, revision;
