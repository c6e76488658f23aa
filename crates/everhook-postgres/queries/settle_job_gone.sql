-- As `settle_task_gone`, of jobs. Index: the primary key.
-- No twin: SQLite logs attempts by a statement of its own, so that deliveries and jobs leave by the same one.
with gone as (
    delete from everhook.task
    using unnest(:batch, n)
    where task.environment = any (array[batch.environment])
        and task.subject = batch.subject
        and task.id = batch.task
        and task.owner = batch.owner
        and task.epoch = batch.epoch
    returning batch.*
),
logged as (
    insert into everhook.job_attempt
        (environment, job, task, epoch, id, session, class, end_state, status, note, started_at, duration_us)
    select environment, subject, task, epoch, attempt, session, class, end_state, status, note, started_at, duration_us
    from gone
    where attempt is not null
)
select n
from gone;
