-- End a job that nobody holds: its task leaves. Index: the primary key.
-- Differs: one row at a time; the attempt that says so is a statement of its own.
delete from task
where environment = ?1
    and subject = ?2
    and id = ?3
    and state <> 1;
