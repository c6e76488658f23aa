-- What a lease has to know of queues, and the time. One that nobody configured is not there. Index: the primary key.
-- No twin: SQLite reads queues one by one, by `find_queue`.
select
    wanted.n, everhook.now_us(), queue.booked_until, queue.name, queue.state, queue.limit_max, queue.key_limit_max, queue.rate_us,
    queue.target_url, queue.target_keys, queue.updated_at, queue.revision
from unnest($1::int[], $2::text[]) with ordinality as wanted (environment, name, n)
    left join everhook.queue on queue.environment = any (array[wanted.environment])
        and queue.name = wanted.name;
