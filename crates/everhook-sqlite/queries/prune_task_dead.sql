-- Forget a delivery that was given up, unless someone has put it back. Index: the primary key.
-- Differs: one row at a time, chosen by `list_expired_task_dead`.
delete from task
where environment = ?1
    and subject = ?2
    and id = ?3
    and state = 2
    and kind = 0;
