-- Write a new application.
insert into application (
    environment, id, uid, name, throttle_rate, metadata, created_at, updated_at, revision
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, 1);
