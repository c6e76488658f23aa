-- Count the newest dead deliveries of lanes by the end and hour of their last attempts, up to a bound for each lane.
-- Indexes: task_dead, the primary key of attempt. A dead task has the epoch of its last attempt.
-- Differs: many lanes at once.
select dead.lane, attempt.class, attempt.status, count(*), min(attempt.started_at + attempt.duration_us),
    max(attempt.started_at + attempt.duration_us)
from unnest(:wanted)
    cross join lateral (
        select task.environment, task.lane, task.subject, task.id, task.epoch
        from everhook.task
        where task.environment = wanted.environment
            and task.lane = wanted.id
            and task.state = 2
        order by task.id desc
        limit :counted_max
    ) as dead
    cross join lateral (
        -- One look-up for each task; a join could read whole partitions. The order is that of the key, so that the
        -- index of the endpoint, which may have millions of rows, is never cheaper.
        select attempt.class, attempt.status, attempt.started_at, attempt.duration_us
        from everhook.attempt
        where attempt.kind = 0
            and attempt.environment = dead.environment
            and attempt.subject = dead.subject
            and attempt.task = dead.id
            and attempt.epoch <= dead.epoch
        order by attempt.epoch desc
        limit 1
    ) as attempt
group by dead.lane, attempt.class, attempt.status, (attempt.started_at + attempt.duration_us) / 3600000000;
