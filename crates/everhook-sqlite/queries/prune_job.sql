-- Forget a job that has ended; the caller forgets its attempts and what it has put out. Indexes: the primary keys.
-- Differs: one row at a time, chosen by `list_expired_job`.
delete from job
where environment = ?1
    and id = ?2
    and not exists (select 1 from task where task.environment = ?1 and task.subject = ?2);
