-- Prune an expired answer of a request, unless its key was claimed again in the meantime. Index: the primary key.
-- Differs: one row at a time, selected by `list_expired_request`.
delete from request
where environment = ?1
    and hash = ?2
    and expires_at <= ?3;
