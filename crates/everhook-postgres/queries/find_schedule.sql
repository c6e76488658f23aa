-- A schedule by its name. Index: the primary key.
select
    {schedule: ScheduleRow}
from everhook.schedule
where schedule.environment = :environment
    and schedule.name = :name;
