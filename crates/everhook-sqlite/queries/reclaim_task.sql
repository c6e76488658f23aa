-- Take a task over from a session that is closed or unknown. Index: the primary key.
-- Differs: one row at a time, chosen by `next_reclaim`.
update task
set owner = ?4,
    epoch = ?5
where environment = ?1
    and subject = ?2
    and id = ?3
    and state = 1;
