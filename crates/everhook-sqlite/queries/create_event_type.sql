-- Write a new event type.
insert into event_type (
    environment, name, description, archived, deprecated, schemas, feature_flag, group_name, created_at, updated_at, revision
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, 1);
