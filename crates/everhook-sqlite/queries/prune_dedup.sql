-- Forget a key that has expired, unless someone has taken it meanwhile. Index: the primary key.
-- Differs: one row at a time, chosen by `list_expired_dedup`.
delete from dedup
where environment = ?1
    and scope = ?2
    and hash = ?3
    and expires_at <= ?4;
