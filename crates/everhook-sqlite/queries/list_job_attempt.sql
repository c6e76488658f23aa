-- List the latest attempts of a job, newest first. Index: the primary key.
select id, task, epoch, session, class, end_state, status, reply, started_at, duration_us, exchange
from attempt
where environment = ?1
    and subject = ?2
order by task desc, epoch desc
limit ?3;
