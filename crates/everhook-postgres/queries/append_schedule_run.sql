-- Write what became of the times of schedules.
-- Differs: many rows at once.
insert into everhook.schedule_run (environment, schedule, id, nominal, at, kind, object)
select environment, schedule, id, nominal, $7, kind, object
from unnest($1::int[], $2::bytea[], $3::bytea[], $4::bigint[], $5::smallint[], $6::bytea[])
    as fresh (environment, schedule, id, nominal, kind, object);
