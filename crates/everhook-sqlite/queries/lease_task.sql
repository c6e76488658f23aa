-- Lease a task that `next_task` selected in the same transaction. Index: the primary key.
-- Differs: one row at a time, without locks, because there is one writer.
update task
set state = 1,
    owner = :owner,
    epoch = epoch + 1,
    limit_group = :limit_group,
    deadline = :deadline,
    leased_at = :now
where environment = :environment
    and subject = :subject
    and id = :id
    and state = 0;
