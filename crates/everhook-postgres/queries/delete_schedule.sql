-- Delete the state of a schedule, and its history. Indexes: the primary keys.
-- Differs: both tables in one statement.
with gone as (
    delete from everhook.schedule
    where environment = :environment
        and id = :id
)
delete from everhook.schedule_run
where environment = :environment
    and schedule = :id;
