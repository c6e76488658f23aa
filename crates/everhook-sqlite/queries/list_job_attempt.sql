-- List the latest attempts of a job, newest first. Index: the primary key.
select {JobAttempt}
from attempt
where environment = :environment
    and subject = :job
order by task desc, epoch desc
limit :limit;
