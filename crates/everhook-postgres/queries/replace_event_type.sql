-- Change an event type that nobody changed meanwhile. Index: the primary key.
update everhook.event_type
set description = $4,
    archived = $5,
    deprecated = $6,
    schemas = $7,
    feature_flag = $8,
    group_name = $9,
    updated_at = everhook.now_us(),
    revision = revision + 1
where environment = $1
    and name = $2
    and revision = $3
returning name, description, archived, deprecated, schemas, feature_flag, group_name, created_at, updated_at, revision;
