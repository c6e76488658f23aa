-- Which state of their endpoints applications are in, and the time. Deleted applications are not there. Index: the primary key.
-- Differs: many rows at once.
with clock as materialized (
    select everhook.now_us() as now
)
select application.environment, application.id, application.revision, clock.now
from clock
    cross join unnest(:wanted)
    join everhook.application on application.environment = any (array[wanted.environment])
        and application.id = wanted.id
where application.deleted_at is null;
