-- Delete the history of a schedule. Index: the primary key.
-- No twin: PostgreSQL deletes it with its schedule.
delete from schedule_run
where environment = :environment
    and schedule = :schedule;
