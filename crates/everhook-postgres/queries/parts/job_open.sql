-- Jobs in a range of ids that have an open or dead task, with it, their last attempts and outputs.
-- No twin: SQLite lists ids, and finds each job by itself.
select
    {job: Job; payload = null::bytea}, job.created_at,
    {include job_state}
from everhook.task
    join everhook.job on job.environment = any (array[task.environment])
        and job.id = task.subject
    left join everhook.last_attempt_of_job(job.environment, job.id) as attempt on true
    left join everhook.output_of_job(job.environment, job.id) as output on true
where task.environment = :environment
    and task.subject > :above
    and task.subject < :below
    and task.kind = 1
