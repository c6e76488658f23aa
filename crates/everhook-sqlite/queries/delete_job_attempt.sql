-- Remove the attempts of a job. Index: the primary key.
-- No twin: PostgreSQL removes them with their job.
delete from job_attempt
where environment = ?1
    and job = ?2;
