-- Write a new endpoint.
insert into endpoint (
    environment, application, id, uid, url, description, state, event_types, channels, headers, throttle_rate, metadata,
    version, keys, created_at, updated_at, revision
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?15, 1);
