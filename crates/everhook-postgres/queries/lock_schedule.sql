-- A schedule by its name, locked. Index: the primary key.
-- No twin: SQLite has one writer.
select
    {schedule: ScheduleRow}
from everhook.schedule
where schedule.environment = :environment
    and schedule.name = :name
for update;
