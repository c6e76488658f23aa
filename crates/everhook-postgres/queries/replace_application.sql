-- Change an application that nobody changed meanwhile. Index: the primary key.
update everhook.application
set uid = $4,
    name = $5,
    throttle_rate = $6,
    metadata = $7,
    updated_at = everhook.now_us(),
    revision = revision + 1
where environment = $1
    and id = $2
    and revision = $3
    and deleted_at is null
returning id, uid, name, throttle_rate, metadata, created_at, updated_at, revision;
