-- Take over a task that was chosen by `next_orphan` or `next_overdue` in the same transaction. Index: the primary key.
-- No twin: `reclaim_orphaned` and `reclaim_overdue` choose and take over at once. One row at a time; no locks, because there is one writer.
update task
set owner = ?4,
    epoch = epoch + 1,
    leased_at = ?5,
    deadline = null
where environment = ?1
    and subject = ?2
    and id = ?3
returning environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, cancel, batch;
