-- Write the states of schedules, and the last job that each started. Index: the primary key.
-- Differs: many rows at once.
update everhook.schedule
set next = moved.next,
    queued = moved.queued,
    look_at = moved.look_at,
    last_job = coalesce(moved.last_job, schedule.last_job)
from unnest(:moved)
where schedule.environment = any (array[moved.environment])
    and schedule.id = moved.id;
