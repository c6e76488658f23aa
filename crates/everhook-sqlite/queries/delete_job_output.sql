-- Delete the output of a job. Index: the primary key.
-- No twin: PostgreSQL deletes it with its job.
delete from job_output
where environment = :environment
    and job = :job;
