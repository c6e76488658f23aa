-- End tasks that no session holds: delete them, and log an attempt for each. Index: the primary key. Only jobs have a
-- session, and only deliveries an endpoint.
-- Differs: many rows at once, together with their attempts.
with gone as (
    delete from everhook.task
    using unnest(:ended)
    where task.environment = any (array[ended.environment])
        and task.subject = ended.subject
        and task.id = ended.id
    returning
        task.kind, task.environment, task.subject, task.id, task.epoch + 1 as epoch, task."trigger", task.lane, ended.attempt
)
insert into everhook.attempt (
    kind, environment, subject, task, epoch, id, session, endpoint, class, end_state, "trigger", url, status, reply,
    started_at, duration_us
)
select
    kind, environment, subject, id, epoch, attempt, case kind when 1 then :session end, case kind when 0 then lane end,
    :class, :end_state, "trigger", '', 0, :note, :started_at, 0
from gone;
