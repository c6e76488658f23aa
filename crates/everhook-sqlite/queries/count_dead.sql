-- Count the newest dead deliveries of a lane by the end and hour of their last attempts, up to a bound. Indexes:
-- task_dead, the primary key of attempt. A dead task has the epoch of its last attempt.
select :lane, attempt.class, attempt.status, count(*), min(attempt.started_at + attempt.duration_us),
    max(attempt.started_at + attempt.duration_us)
from (
        select task.environment, task.subject, task.id, task.epoch
        from task indexed by task_dead
        where task.environment = :environment
            and task.lane = :lane
            and task.state = 2
        order by task.id desc
        limit :counted_max
    ) as dead
    cross join attempt on attempt.environment = dead.environment
        and attempt.subject = dead.subject
        and attempt.task = dead.id
        and attempt.epoch = dead.epoch
where attempt.endpoint is not null
group by attempt.class, attempt.status, (attempt.started_at + attempt.duration_us) / 3600000000;
