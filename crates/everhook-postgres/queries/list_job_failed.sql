-- List the dead jobs of a batch for its announcement. Indexes: task_dead_batch, the primary keys.
select
    {job: Job; payload = null::bytea},
    attempt.reply, attempt.started_at + attempt.duration_us
from everhook.task
    join everhook.job on job.environment = any (array[task.environment])
        and job.id = task.subject
    left join lateral (
        select *
        from everhook.attempt
        where attempt.kind = 1
            and attempt.environment = job.environment
            and attempt.subject = job.id
        order by attempt.task desc, attempt.epoch desc
        limit 1
    ) as attempt on true
where task.environment = :environment
    and task.batch = :batch
    and task.state = 2
order by task.subject
limit :limit;
