-- End an attempt whose task leaves the table. Index: the primary key, never task_owner. Fenced by holder and epoch: a
-- holder that lost its task matches no row.
-- Differs: one row at a time; a separate statement logs the attempt.
delete from task
where environment = :environment
    and subject = :subject
    and id = :id
    and state = 1
    and +owner = :owner
    and epoch = :epoch;
