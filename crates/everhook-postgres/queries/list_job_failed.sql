-- The dead jobs of a batch, for its announcement. Indexes: task_dead_batch, the primary keys.
select
    job.id, job.queue, job.kind, job.name, null::bytea, job.priority, job.concurrency_key, job.tags, job.batch, job.rest,
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
where task.environment = $1
    and task.batch = $2
    and task.state = 2
order by task.subject
limit $3;
