-- Prune a batch without open or dead jobs. Index: the primary key.
-- Differs: one row at a time, selected by `list_expired_batch`.
delete from batch
where environment = ?1
    and id = ?2
    and intake = 1
    and pending = 0
    and dead = 0;
