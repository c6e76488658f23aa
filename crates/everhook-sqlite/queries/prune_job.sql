-- Prune an ended job; the caller prunes its attempts and output. Indexes: the primary keys.
-- Differs: one row at a time, selected by `list_expired_job`.
delete from job
where environment = ?1
    and id = ?2
    and not exists (select 1 from task where task.environment = ?1 and task.subject = ?2);
