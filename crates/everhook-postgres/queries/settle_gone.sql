-- End attempts whose tasks leave the table. Index: the primary key.
-- Fenced by task, epoch and owner: a holder that lost its task matches no row, and nothing is written for it. A task
-- with an owner is leased, so `state` is not compared: this would let the planner walk the owner index.
-- Differs: many rows at once, together with their attempts. `any (array[…])` instead of `=` leaves the planner one way
-- to join, whatever the statistics say of a table that fills and empties: one lookup by key for each row of the batch.
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
    {include log_attempt}
    from gone
    where attempt is not null
)
select n
from gone;
