-- The latest attempts of a job, newest first. Index: the primary key.
select {JobAttempt}
from everhook.job_attempt
where environment = :environment
    and job = :job
order by task desc, epoch desc
limit :limit;
