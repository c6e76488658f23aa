-- End an attempt whose task leaves the table, fenced by holder and epoch. Index: the primary key, never task_owner.
-- Differs: one row at a time; the attempt is a statement of its own.
delete from task
where environment = ?1
    and subject = ?2
    and id = ?3
    and state = 1
    and +owner = ?4
    and epoch = ?5;
