-- Delete the record of a job. Index: the primary key.
-- Differs: one row at a time; separate statements delete its task, attempts and output.
delete from job
where environment = :environment
    and id = :id;
