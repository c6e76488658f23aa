-- Take over a task that `next_orphan` or `next_overdue` selected in the same transaction. Index: the primary key. The
-- new epoch fences the old holder, whose late settle matches no row.
-- No twin: `reclaim_orphaned` and `reclaim_overdue` select and take over at once. One row at a time, without locks,
-- because there is one writer.
update task
set owner = :session,
    epoch = epoch + 1,
    leased_at = :now,
    deadline = null
where environment = :environment
    and subject = :subject
    and id = :id
returning {Task};
