-- Give positions to due messages of a locked poller. Index: polled_waiting.
-- Differs: the rows are updated by ctid, because a join could scan the table; under the lock no such row is updated by
-- another transaction.
with waiting as materialized (
    select ctid as place, message, due_at
    {include polled_due}
)
update everhook.polled
set position = :base + array_position(array(select message from waiting order by due_at, message), polled.message)
where polled.ctid = any (array(select place from waiting));
