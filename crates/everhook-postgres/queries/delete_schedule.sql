-- Remove a schedule with its history. Indexes: the primary keys.
-- Differs: both tables in one statement.
with gone as (
    delete from everhook.schedule
    where environment = :environment
        and name = :name
    returning environment, id
),
history as (
    delete from everhook.schedule_run
    using gone
    where schedule_run.environment = any (array[gone.environment])
        and schedule_run.schedule = gone.id
)
select count(*)
from gone;
