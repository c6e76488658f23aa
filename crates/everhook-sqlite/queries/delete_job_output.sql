-- Remove what a job has put out. Index: the primary key.
delete from job_output
where environment = ?1
    and job = ?2;
