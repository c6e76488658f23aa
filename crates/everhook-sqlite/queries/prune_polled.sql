-- Prune an entry of a poller. Index: the primary key.
-- Differs: one row at a time, selected by `list_expired_polled`.
delete from polled
where environment = ?1
    and endpoint = ?2
    and message = ?3;
