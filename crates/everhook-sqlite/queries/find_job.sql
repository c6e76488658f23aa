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
    left join attempt as last on last.environment = job.environment
        and last.subject = job.id
        and (last.task, last.epoch) = (
            select latest.task, latest.epoch
            from attempt as latest
            where latest.environment = job.environment
                and latest.subject = job.id
            order by latest.task desc, latest.epoch desc
            limit 1
        )
where job.environment = :environment
    and job.id = :id;
