-- List the latest attempts of a job, newest first. Index: the primary key.
select {JobAttempt}
from everhook.attempt
where kind = 1
    and environment = :environment
    and subject = :job
order by task desc, epoch desc
limit :limit;
