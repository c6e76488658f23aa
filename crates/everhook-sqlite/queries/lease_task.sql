-- Lease a task that `next_task` selected in the same transaction. Index: the primary key.
-- Differs: one row at a time, without locks, because there is one writer.
update task
set state = 1,
    owner = ?4,
    epoch = epoch + 1,
    limit_group = ?5,
    deadline = ?6,
    leased_at = ?7
where environment = ?1
    and subject = ?2
    and id = ?3
    and state = 0;
