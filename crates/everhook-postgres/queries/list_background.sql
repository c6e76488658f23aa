-- List an environment's background tasks in a range of ids, filtered. Index: job_background; those of the other tables
-- for each job. Large results are left out: a page of them would not fit in memory.
-- Differs: `jsonb` tests the members of a JSON array.
select
    {job: Job; payload = null::bytea}, job.created_at,
    {task: Task}, task.state, task.owner, coalesce(task.leased_at, task.due_at),
    {attempt: JobAttempt},
    output.progress, output.progress_text, case when octet_length(output.result) <= :result_max then output.result end, output.result_bytes
from everhook.job
    left join everhook.task_of_job(job.environment, job.id) as task on true
    left join everhook.last_attempt_of_job(job.environment, job.id) as attempt on true
    left join everhook.output_of_job(job.environment, job.id) as output on true
where job.environment = 0
    and job.queue = 'everhook.background'
    and job.concurrency_key = :owner
    and job.id > :above
    and job.id < :below
    and (:kind::text is null or job.kind = :kind)
    and (:tag::text is null or job.tags::jsonb ? :tag)
    and (
        :states::smallint[] is null
        or coalesce(task.state, case attempt.end_state when 0 then 0 when 2 then 2 when 3 then 4 else 3 end) = any (:states)
    )
order by job.id :order
limit :limit;
