-- Find a job with its open task, last attempt and output, in one snapshot. Indexes: the primary keys.
select
    {job: Job}, job.created_at,
    {task: Task}, task.state, task.owner, greatest(task.leased_at, task.due_at),
    {attempt: JobAttempt},
    output.progress, output.progress_text, output.result, output.result_bytes
from everhook.job
    left join lateral (
        select *
        from everhook.task
        where task.environment = job.environment
            and task.subject = job.id
        order by task.id desc
        limit 1
    ) as task on true
    left join lateral (
        select *
        from everhook.attempt
        where attempt.kind = 1
            and attempt.environment = job.environment
            and attempt.subject = job.id
        order by attempt.task desc, attempt.epoch desc
        limit 1
    ) as attempt on true
    left join lateral (
        select *
        from everhook.job_output
        where job_output.environment = job.environment
            and job_output.job = job.id
        limit 1
    ) as output on true
where job.environment = :environment
    and job.id = :id;
