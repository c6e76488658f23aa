-- Write a new event type.
insert into event_type (
    environment, name, description, archived, deprecated, schemas, feature_flag, group_name, created_at, updated_at, revision
)
values (:environment, :name, :description, :archived, :deprecated, :schemas, :feature_flag, :group_name, :now, :now, 1);
