-- Take over jobs whose time is over; the caller settles them as timed out. Indexes: task_deadline to choose, the primary key to write.
-- Differs: no locks, because there is one writer.
update task
set owner = ?1,
    epoch = epoch + 1,
    deadline = null
where (environment, subject, id) in (
    select environment, subject, id
    from task
    where state = 1
        and deadline <= ?2
    order by deadline
    limit ?3
)
returning environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, cancel, batch;
