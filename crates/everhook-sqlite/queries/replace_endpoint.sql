-- Change an endpoint whose revision is still the given one. Index: the primary key.
update endpoint
set uid = ?5,
    url = ?6,
    description = ?7,
    state = ?8,
    event_types = ?9,
    channels = ?10,
    headers = ?11,
    throttle_rate = ?12,
    metadata = ?13,
    version = ?14,
    keys = ?15,
    updated_at = ?16,
    revision = revision + 1
where environment = ?1
    and application = ?2
    and id = ?3
    and revision = ?4
    and deleted_at is null;
