-- A schedule by its name, locked. Index: the primary key.
-- No twin: SQLite has one writer.
select
    schedule.environment, schedule.id, schedule.name, schedule.spec, schedule.starts, schedule.paused, schedule.next, schedule.queued,
    schedule.look_at, schedule.created_at, schedule.updated_at, schedule.revision, schedule.last_job
from everhook.schedule
where schedule.environment = $1
    and schedule.name = $2
for update;
