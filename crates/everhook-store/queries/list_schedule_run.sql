-- List the latest runs of a schedule, newest first. Index: the primary key.
select {Run}
from everhook.schedule_run
where environment = :environment
    and schedule = :schedule
order by id desc
limit :limit;
