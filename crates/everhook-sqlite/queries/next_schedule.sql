-- List due schedules with their resources, those that are overdue longest first. Indexes: schedule_look, the primary
-- key.
-- Differs: no locks, because there is one writer; so one statement reads both tables.
select {resource: ResourceRow}, {schedule: FiringRow}
from schedule
    join resource on resource.environment = schedule.environment
        and resource.kind = 4
        and resource.parent = x''
        and resource.id = schedule.id
where schedule.look_at <= :now
    and schedule.look_at < 9223372036854775807
order by schedule.look_at
limit :limit;
