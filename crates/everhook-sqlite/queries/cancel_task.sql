-- Delete a task that no session holds. Index: the primary key.
-- Differs: one row at a time; a separate statement logs the attempt.
delete from task
where environment = :environment
    and subject = :subject
    and id = :id
    and state <> 1;
