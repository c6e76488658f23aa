-- Take over a task that `next_orphan` or `next_overdue` selected in the same transaction. Index: the primary key. The
-- new epoch fences the old holder, whose late settle matches no row.
-- No twin: `reclaim_orphaned` and `reclaim_overdue` select and take over at once. One row at a time, without locks,
-- because there is one writer.
update task
set owner = ?4,
    epoch = epoch + 1,
    leased_at = ?5,
    deadline = null
where environment = ?1
    and subject = ?2
    and id = ?3
returning environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, cancel, batch, order_key;
