-- Delete the attempts of a job. Index: the primary key.
-- No twin: PostgreSQL deletes them with their job.
delete from attempt
where environment = :environment
    and subject = :job;
