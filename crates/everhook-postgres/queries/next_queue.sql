-- What a lease has to know of queues, and the time. One that nobody configured is not there. Index: the primary key.
-- No twin: SQLite reads queues one by one, by `find_queue`.
select
    wanted.n, everhook.now_us(), queue.booked_until, {queue: Queue}
from unnest(:wanted, n)
    left join everhook.queue on queue.environment = any (array[wanted.environment])
        and queue.name = wanted.name;
