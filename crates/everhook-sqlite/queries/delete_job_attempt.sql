-- Remove the attempts of a job. Index: the primary key.
delete from job_attempt
where environment = ?1
    and job = ?2;
