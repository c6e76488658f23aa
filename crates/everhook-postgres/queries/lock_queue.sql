-- The same as `next_queue`, of queues with a limit or a rate, locked, so that nobody else counts at the same time; those that another lease
-- holds are left out. Index: the primary key.
-- No twin: SQLite has one writer.
select
    wanted.n, everhook.now_us(), queue.booked_until, {queue: Queue}
from unnest(:wanted, n)
    join everhook.queue on queue.environment = any (array[wanted.environment])
        and queue.name = wanted.name
order by wanted.environment, wanted.name collate "C"
for no key update of queue skip locked;
