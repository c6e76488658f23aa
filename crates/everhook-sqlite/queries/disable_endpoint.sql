-- Disable an endpoint whose receiver answered 410, unless it is disabled or deleted. Index: the primary key.
update resource
set state = 2,
    updated_at = :now,
    revision = revision + 1
where environment = :environment
    and kind = 1
    and parent = :application
    and id = :id
    and state = 0
    and deleted_at is null;
