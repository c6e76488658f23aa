-- List pending or leased jobs, like `list_job`. Index: the primary key of task.
-- Differs: as in `list_job`.
select
    {job: Job; payload = null::bytea}, job.created_at,
    {task: Task}, task.state, task.owner, coalesce(task.leased_at, task.due_at),
    {attempt: JobAttempt},
    output.progress, output.progress_text, output.result, output.result_bytes
from everhook.task
    join everhook.job on job.environment = any (array[task.environment])
        and job.id = task.subject
    left join everhook.last_attempt_of_job(job.environment, job.id) as attempt on true
    left join everhook.output_of_job(job.environment, job.id) as output on true
where task.environment = :environment
    and task.subject > :above
    and task.subject < :below
    and task.kind = 1
    and task.state = :state
    and (:queue::text is null or job.queue = :queue)
    and (:kind::text is null or job.kind = :kind)
    and (:tag::text is null or job.tags::jsonb ? :tag)
    and (:batch::bytea is null or job.batch = :batch)
    and job.created_at < :before
    and job.created_at >= :after
    and (
        :error::bytea is null
        or strpos(lower(encode(attempt.reply, 'escape')), lower(encode(:error, 'escape'))) > 0
    )
order by task.subject :order
limit :limit;
