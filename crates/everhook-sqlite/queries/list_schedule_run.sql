-- List the latest runs of a schedule, newest first. Index: the primary key.
select nominal, at, kind, object
from schedule_run
where environment = ?1
    and schedule = ?2
order by id desc
limit ?3;
