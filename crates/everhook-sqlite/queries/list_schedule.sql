-- Schedules between two names. Index: the primary key.
select environment, name, id, spec, starts, paused, next, queued, look_at, last_job, created_at, updated_at, revision
from schedule
where environment = ?1
    and name > ?2
    and name < ?3
order by name asc
limit ?4;
