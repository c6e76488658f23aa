-- Find the batches of jobs, and the ends of their last attempts. Indexes: the primary keys.
-- No twin: SQLite has one writer. A separate statement from `lock_task_job`, because its snapshot must be newer than
-- the locks: it must see a settlement that the lock waited for.
select job.id, job.batch, attempt.end_state
from unnest(:wanted)
    join everhook.job on job.environment = any (array[wanted.environment])
        and job.id = wanted.id
    left join everhook.last_attempt_of_job(job.environment, job.id) as attempt on true;
