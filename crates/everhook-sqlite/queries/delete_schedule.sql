-- Delete the state of a schedule. Index: the primary key.
-- Differs: `delete_schedule_run` deletes its history.
delete from schedule
where environment = :environment
    and id = :id;
