-- Remove what a job has put out. Index: the primary key.
-- No twin: PostgreSQL removes it with its job.
delete from job_output
where environment = ?1
    and job = ?2;
