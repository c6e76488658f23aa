-- Mark a resource, or all of a parent, as deleted; the rows stay, and their uids become free. Index: resource_open.
update everhook.resource
set deleted_at = :now,
    revision = revision + 1
where environment = :environment
    and kind = :kind
    and parent = :parent
    and (:id::bytea is null or id = :id)
    and deleted_at is null
returning id;
