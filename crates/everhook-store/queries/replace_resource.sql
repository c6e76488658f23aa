-- Replace a resource whose revision is still the given one. Index: the primary key.
update everhook.resource
set name = :name,
    state = :state,
    spec = :spec,
    info = :info,
    updated_at = :now,
    revision = revision + 1
where environment = :environment
    and kind = :kind
    and parent = :parent
    and id = :id
    and revision = :revision
    and deleted_at is null
returning {ResourceRow};
