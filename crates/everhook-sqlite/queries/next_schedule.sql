-- Schedules that are to be looked at, those that wait longest first, with what they start. Indexes: schedule_look, the primary key.
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
