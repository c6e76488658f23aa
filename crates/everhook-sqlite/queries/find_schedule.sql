-- A schedule by its name. Index: the primary key.
select environment, name, id, spec, starts, paused, next, queued, look_at, last_job, created_at, updated_at, revision
from schedule
where environment = ?1
    and name = ?2;
