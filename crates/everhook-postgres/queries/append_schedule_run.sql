-- Write the runs of schedules, both started and left out.
-- Differs: many rows at once.
insert into everhook.schedule_run (environment, schedule, id, nominal, at, kind, object)
select environment, schedule, id, nominal, :at, kind, object
from unnest(:fresh);
