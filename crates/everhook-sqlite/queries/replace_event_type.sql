-- Change an event type whose revision is still the given one. Index: the primary key.
update event_type
set description = ?4,
    archived = ?5,
    deprecated = ?6,
    schemas = ?7,
    feature_flag = ?8,
    group_name = ?9,
    updated_at = ?10,
    revision = revision + 1
where environment = ?1
    and name = ?2
    and revision = ?3;
