-- List the dead jobs of a batch for its announcement. Indexes: task_dead_batch, the primary keys.
select
    {job: Job; payload = null::bytea},
    attempt.reply, attempt.started_at + attempt.duration_us
from everhook.task
    join everhook.job on job.environment = any (array[task.environment])
        and job.id = task.subject
    left join everhook.last_attempt_of_job(job.environment, job.id) as attempt on true
where task.environment = :environment
    and task.batch = :batch
    and task.state = 2
order by task.subject
limit :limit;
