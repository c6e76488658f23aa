-- Lock the state of a schedule. Index: the primary key.
-- No twin: SQLite has one writer.
select {schedule: FiringRow}
from everhook.schedule
where schedule.environment = :environment
    and schedule.id = :id
for update;
