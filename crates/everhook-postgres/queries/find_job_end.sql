-- The batches of jobs and how their last attempts left them. Indexes: the primary keys.
-- No twin: SQLite has one writer. A statement of its own, because it has to see what someone wrote whom `lock_task_job` waited for.
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
