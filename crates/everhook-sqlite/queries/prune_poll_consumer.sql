-- Prune a consumer, unless it was used in the meantime. Index: the primary key.
-- Differs: one row at a time, selected by `list_expired_poll_consumer`.
delete from poll_consumer
where environment = ?1
    and endpoint = ?2
    and name = ?3
    and used_at < ?4;
