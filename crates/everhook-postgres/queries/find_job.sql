-- Find a job with its open task, last attempt and output, in one snapshot. Indexes: the primary keys.
select
    {job: Job}, job.created_at,
    {task: Task}, task.state, task.owner, coalesce(task.leased_at, task.due_at),
    {attempt: JobAttempt},
    output.progress, output.progress_text, output.result, output.result_bytes
from everhook.job
    left join everhook.task_of_job(job.environment, job.id) as task on true
    left join everhook.last_attempt_of_job(job.environment, job.id) as attempt on true
    left join everhook.output_of_job(job.environment, job.id) as output on true
where job.environment = :environment
    and job.id = :id;
