-- Find a job with its open task, last attempt and output, in one snapshot. Indexes: the primary keys.
-- Differs: the payload is read only on request.
select
    job.id, job.queue, job.kind, job.name, job.priority, job.concurrency_key, job.tags, job.batch, job.rest, job.created_at,
    case when ?3 then job.payload end,
    output.progress, output.progress_text, output.result, output.result_bytes,
    last.id, last.task, last.epoch, last.session, last.class, last.end_state, last.status, last.reply, last.started_at,
    last.duration_us, last.exchange,
    task.state, task.owner, max(coalesce(task.leased_at, 0), task.due_at),
    task.environment, task.subject, task.id, task.lane, task.kind, task."trigger", task.priority, task.due_at, task.tries,
    task.crashes, task.epoch, task.cancel, task.batch, task.order_key
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
where job.environment = ?1
    and job.id = ?2;
