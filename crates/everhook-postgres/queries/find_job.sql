-- A job with its open task, its last attempt and what it reported, in one snapshot. Indexes: the primary keys.
select
    job.id, job.created_at, job.queue, job.kind, job.name, job.payload, job.priority, job.concurrency_key, job.tags, job.batch, job.rest,
    task.environment, task.subject, task.id, task.lane, task.kind, task."trigger", task.priority, task.due_at, task.tries, task.crashes,
    task.epoch, task.cancel, task.batch, task.state, task.owner, greatest(task.leased_at, task.due_at),
    attempt.id, attempt.task, attempt.epoch, attempt.session, attempt.class, attempt.end_state, attempt.status, attempt.note,
    attempt.started_at, attempt.duration_us,
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
        from everhook.job_attempt
        where job_attempt.environment = job.environment
            and job_attempt.job = job.id
        order by job_attempt.task desc, job_attempt.epoch desc
        limit 1
    ) as attempt on true
    left join lateral (
        select *
        from everhook.job_output
        where job_output.environment = job.environment
            and job_output.job = job.id
        limit 1
    ) as output on true
where job.environment = $1
    and job.id = $2;
