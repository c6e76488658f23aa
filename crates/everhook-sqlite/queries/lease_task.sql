-- Lease due tasks of one lane. Indexes: task_ready to choose, the primary key to write.
-- Differs: one lane at a time; no locks, because there is one writer.
update task
set state = 1,
    owner = ?6,
    epoch = epoch + 1,
    leased_at = ?7
where (environment, subject, id) in (
    select environment, subject, id
    from task
    where environment = ?1
        and lane = ?2
        and priority = ?3
        and due_at <= ?4
        and state = 0
    order by due_at, id
    limit ?5
)
returning subject, id, kind, "trigger", due_at, tries, crashes, epoch, cancel;
