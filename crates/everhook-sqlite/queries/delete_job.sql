-- Remove the record of a job. Index: the primary key.
-- Differs: one row at a time; its task, its attempts and what it has put out go by statements of their own.
delete from job
where environment = ?1
    and id = ?2;
