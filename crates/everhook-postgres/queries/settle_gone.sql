-- End attempts whose tasks leave the table, in one statement. Index: the primary key.
-- Fenced by task, epoch and owner; a task that has an owner is leased, so that `state` need not be named. Naming it would offer the
-- planner the owner index to walk.
-- Differs: many rows at once, and the attempts with them. `any (array[…])` instead of `=` leaves one way to join, whatever the
-- statistics say of a table that fills and empties: for each row of the batch one look-up by key.
with gone as (
    delete from everhook.task
    using unnest(:batch, n)
    where task.environment = any (array[batch.environment])
        and task.subject = batch.subject
        and task.id = batch.task
        and task.owner = batch.owner
        and task.epoch = batch.epoch
    returning batch.*, task.kind
),
logged as (
    insert into everhook.attempt (
        kind, environment, subject, task, epoch, id, session, endpoint, class, end_state, "trigger", url, status, reply, started_at,
        duration_us
    )
    select
        kind, environment, subject, task, epoch, attempt, session, endpoint, class, end_state, "trigger", url, status, reply, started_at,
        duration_us
    from gone
    where attempt is not null
)
select n
from gone;
