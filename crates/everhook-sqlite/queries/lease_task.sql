-- Give a pending task to a session. Index: the primary key.
-- Differs: one row at a time, chosen by `next_task`.
update task
set state = 1,
    owner = ?4,
    epoch = ?5
where environment = ?1
    and subject = ?2
    and id = ?3
    and state = 0;
