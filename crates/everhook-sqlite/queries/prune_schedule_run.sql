-- Prune a run of a schedule. Index: the primary key.
-- Differs: one row at a time, selected by `list_expired_schedule_run`.
delete from schedule_run
where environment = ?1
    and schedule = ?2
    and id = ?3;
