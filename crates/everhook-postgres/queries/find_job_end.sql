-- Find the batches of jobs, and the ends of their last attempts. Indexes: the primary keys.
-- No twin: SQLite has one writer. A separate statement from `lock_task_job`, because its snapshot must be newer than
-- the locks: it must see a settlement that the lock waited for.
select job.id, job.batch, (
    select attempt.end_state
    from everhook.attempt
    where attempt.kind = 1
        and attempt.environment = job.environment
        and attempt.subject = job.id
    order by attempt.task desc, attempt.epoch desc
    limit 1
)
from unnest(:wanted)
    join everhook.job on job.environment = any (array[wanted.environment])
        and job.id = wanted.id;
