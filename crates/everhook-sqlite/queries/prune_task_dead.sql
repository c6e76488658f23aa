-- Prune a dead delivery, unless it was redriven in the meantime. Index: the primary key.
-- Differs: one row at a time, selected by `list_expired_task_dead`.
delete from task
where environment = ?1
    and subject = ?2
    and id = ?3
    and state = 2
    and kind = 0;
