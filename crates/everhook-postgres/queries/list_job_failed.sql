-- The dead jobs of a batch, for its announcement. Indexes: task_dead_batch, the primary keys.
select
    {job: Job; payload = null::bytea},
    attempt.note, attempt.started_at + attempt.duration_us
from everhook.task
    join everhook.job on job.environment = any (array[task.environment])
        and job.id = task.subject
    left join lateral (
        select *
        from everhook.job_attempt
        where job_attempt.environment = job.environment
            and job_attempt.job = job.id
        order by job_attempt.task desc, job_attempt.epoch desc
        limit 1
    ) as attempt on true
where task.environment = :environment
    and task.batch = :batch
    and task.state = 2
order by task.subject
limit :limit;
