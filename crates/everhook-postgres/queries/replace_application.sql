-- Change an application that nobody changed meanwhile. Index: the primary key.
update everhook.application
set uid = :uid,
    name = :name,
    throttle_rate = :throttle_rate,
    metadata = :metadata,
    updated_at = everhook.now_us(),
    revision = revision + 1
where environment = :environment
    and id = :id
    and revision = :revision
    and deleted_at is null
returning {Application};
