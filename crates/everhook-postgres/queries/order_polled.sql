-- Give positions to due messages of a locked poller. Index: polled_waiting.
-- Differs: the rows are updated by ctid, because a join could scan the table; under the lock no such row is updated by
-- another transaction.
with waiting as materialized (
    select ctid as place, message, due_at
    from everhook.polled
    where environment = :environment
        and endpoint = :endpoint
        and position is null
        and due_at <= :now
    order by due_at, message
    limit :limit
)
update everhook.polled
set position = :base + array_position(array(select message from waiting order by due_at, message), polled.message)
where polled.ctid = any (array(select place from waiting));
