-- Find a job with its open task, last attempt and output, in one snapshot. Indexes: the primary keys.
-- Differs: the payload is read only on request.
select
    {job: Job; payload = case when :has_payload then job.payload end}, job.created_at,
    {task: Task}, task.state, task.owner, coalesce(task.leased_at, task.due_at),
    {last: JobAttempt},
    output.progress, output.progress_text, output.result, output.result_bytes
from job
    left join task on task.environment = job.environment and task.subject = job.id
    left join job_output as output on output.environment = job.environment and output.job = job.id
    {include last_attempt}
where job.environment = :environment
    and job.id = :id;
