-- Remove the history of a schedule. Index: the primary key.
delete from schedule_run
where environment = ?1
    and schedule = ?2;
