-- As `list_job`, the jobs of a batch. Index: job_batch.
-- Differs: as in `list_job`.
select
    job.id, job.created_at, job.queue, job.kind, job.name, null::bytea, job.priority, job.concurrency_key, job.tags, job.batch, job.rest,
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
    and job.id > $2
    and job.id < $3
    and ($4::text is null or job.queue = $4)
    and ($5::text is null or job.kind = $5)
    and ($6::text is null or job.tags::jsonb ? $6)
    and job.batch = $7
    and job.created_at < $8
    and job.created_at >= $9
    and (
        $10::bytea is null
        or strpos(lower(encode(attempt.note, 'escape')), lower(encode($10, 'escape'))) > 0
    )
    and (
        $11::smallint is null
        or coalesce(task.state, case attempt.end_state when 0 then 0 when 2 then 2 when 3 then 4 else 3 end) = $11
    )
order by job.id asc
limit $12;
