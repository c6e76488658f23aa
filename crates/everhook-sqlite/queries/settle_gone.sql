-- End an attempt whose task leaves the table. Index: the primary key, never task_owner. Fenced by holder and epoch: a
-- holder that lost its task matches no row.
-- Differs: one row at a time; a separate statement logs the attempt.
delete from task
where environment = ?1
    and subject = ?2
    and id = ?3
    and state = 1
    and +owner = ?4
    and epoch = ?5;
