-- Disable an endpoint whose receiver answered 410, unless it is disabled or deleted. Index: the primary key.
update resource
set state = 2,
    updated_at = ?4,
    revision = revision + 1
where environment = ?1
    and kind = 1
    and parent = ?2
    and id = ?3
    and state = 0
    and deleted_at is null;
