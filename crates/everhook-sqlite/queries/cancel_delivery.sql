-- Delete the task of a delivery that no session holds. Index: the primary key.
-- Differs: one row at a time; a separate statement logs the attempt.
delete from task
where environment = ?1
    and subject = ?2
    and id = ?3
    and state <> 1;
