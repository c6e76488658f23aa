-- Change an application whose revision is still the given one. Index: the primary key.
update application
set uid = ?4,
    name = ?5,
    throttle_rate = ?6,
    metadata = ?7,
    updated_at = ?8,
    revision = revision + 1
where environment = ?1
    and id = ?2
    and revision = ?3
    and deleted_at is null;
