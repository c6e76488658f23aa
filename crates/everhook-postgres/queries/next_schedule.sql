-- Lock the schedules that are to be looked at, those that are late most first. Index: schedule_look.
-- Differs: those that another node looks at are skipped.
select
    {schedule: ScheduleRow}
from everhook.schedule
where schedule.look_at <= :now
    and schedule.look_at < 9223372036854775807
order by schedule.look_at
limit :limit
for update skip locked;
