-- Prune an expired key, unless it was taken again in the meantime. Index: the primary key.
-- Differs: one row at a time, selected by `list_expired_dedup`.
delete from dedup
where environment = ?1
    and scope = ?2
    and hash = ?3
    and expires_at <= ?4;
