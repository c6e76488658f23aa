-- Remove the state of a schedule. Index: the primary key.
-- Differs: its history is removed by `delete_schedule_run`.
delete from schedule
where environment = :environment
    and id = :id;
