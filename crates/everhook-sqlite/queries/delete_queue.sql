-- Forget how a queue is configured. Index: the primary key.
delete from queue
where environment = ?1
    and name = ?2;
