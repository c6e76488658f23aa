-- The latest attempts of a job, newest first. Index: the primary key.
select id, task, epoch, session, class, end_state, status, note, started_at, duration_us
from everhook.job_attempt
where environment = $1
    and job = $2
order by task desc, epoch desc
limit $3;
