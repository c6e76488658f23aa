-- Forget a batch of which no job is open or dead. Index: the primary key.
-- Differs: one row at a time, chosen by `list_expired_batch`.
delete from batch
where environment = ?1
    and id = ?2
    and intake = 1
    and pending = 0
    and dead = 0;
