-- Change an event type whose revision is still the given one. Index: the primary key.
update event_type
set description = :description,
    archived = :archived,
    deprecated = :deprecated,
    schemas = :schemas,
    feature_flag = :feature_flag,
    group_name = :group_name,
    updated_at = :now,
    revision = revision + 1
where environment = :environment
    and name = :name
    and revision = :revision;
