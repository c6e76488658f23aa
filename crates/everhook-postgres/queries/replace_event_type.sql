-- Change an event type that nobody changed meanwhile. Index: the primary key.
update everhook.event_type
set description = :description,
    archived = :archived,
    deprecated = :deprecated,
    schemas = :schemas,
    feature_flag = :feature_flag,
    group_name = :group_name,
    updated_at = everhook.now_us(),
    revision = revision + 1
where environment = :environment
    and name = :name
    and revision = :revision
returning {EventType};
