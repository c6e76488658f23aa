-- Lock due schedules, those that are overdue longest first. Index: schedule_look.
-- Differs: schedules that another node has locked are skipped. Their resources are read by the next statement: a change
-- that was committed before the lock is not in the snapshot of this one.
select schedule.environment, schedule.id, {schedule: FiringRow}
from everhook.schedule
where schedule.look_at <= :now
    and schedule.look_at < 9223372036854775807
order by schedule.look_at
limit :limit
for update skip locked;
