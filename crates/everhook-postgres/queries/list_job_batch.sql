-- List the jobs of a batch, like `list_job`. Index: job_batch.
-- Differs: as in `list_job`.
select
    {job: Job; payload = null::bytea}, job.created_at,
    {task: Task}, task.state, task.owner, coalesce(task.leased_at, task.due_at),
    {attempt: JobAttempt},
    output.progress, output.progress_text, output.result, output.result_bytes
from everhook.job
    left join everhook.task_of_job(job.environment, job.id) as task on true
    left join everhook.last_attempt_of_job(job.environment, job.id) as attempt on true
    left join everhook.output_of_job(job.environment, job.id) as output on true
where job.environment = :environment
    and job.id > :above
    and job.id < :below
    and (:queue::text is null or job.queue = :queue)
    and (:kind::text is null or job.kind = :kind)
    and (:tag::text is null or job.tags::jsonb ? :tag)
    and job.batch = :batch
    and job.created_at < :before
    and job.created_at >= :after
    and (
        :error::bytea is null
        or strpos(lower(encode(attempt.reply, 'escape')), lower(encode(:error, 'escape'))) > 0
    )
    and (
        :state::smallint is null
        or coalesce(task.state, case attempt.end_state when 0 then 0 when 2 then 2 when 3 then 4 else 3 end) = :state
    )
order by job.id :order
limit :limit;
