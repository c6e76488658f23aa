-- End jobs that nobody holds: their tasks leave, and an attempt says so. Index: the primary key.
-- Differs: many rows at once, and the attempts with them.
with gone as (
    delete from everhook.task
    using unnest(:ended)
    where task.environment = any (array[ended.environment])
        and task.subject = ended.subject
        and task.id = ended.id
    returning task.environment, task.subject, task.id, task.epoch + 1 as epoch, ended.attempt
)
insert into everhook.job_attempt
    (environment, job, task, epoch, id, session, class, end_state, status, note, started_at, duration_us)
select environment, subject, id, epoch, attempt, :session, :class, :end_state, 0, '', :started_at, 0
from gone;
