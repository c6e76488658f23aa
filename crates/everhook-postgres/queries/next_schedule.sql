-- Lock the schedules that are to be looked at, those that are late most first. Index: schedule_look.
-- Differs: those that another node looks at are skipped.
select
    schedule.environment, schedule.id, schedule.name, schedule.spec, schedule.starts, schedule.paused, schedule.next, schedule.queued,
    schedule.look_at, schedule.created_at, schedule.updated_at, schedule.revision, schedule.last_job
from everhook.schedule
where schedule.look_at <= $1
    and schedule.look_at < 9223372036854775807
order by schedule.look_at
limit $2
for update skip locked;
