-- Change an application whose revision is still the given one. Index: the primary key.
update application
set uid = :uid,
    name = :name,
    throttle_rate = :throttle_rate,
    metadata = :metadata,
    updated_at = :now,
    revision = revision + 1
where environment = :environment
    and id = :id
    and revision = :revision
    and deleted_at is null;
