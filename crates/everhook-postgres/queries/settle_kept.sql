-- End attempts whose tasks stay in the table, pending or dead; returns when each is due again. Index: the primary key.
-- A counted task may keep its place in the lane: then its due time and its limit group stay.
-- Differs: as in `settle_gone`; pending and dead tasks in one statement.
with clock as materialized (
    select everhook.now_us() as now
),
kept as (
    update everhook.task
    set state = batch.state,
        owner = null,
        limit_group = case when batch.in_place then task.limit_group end,
        deadline = null,
        tries = batch.tries,
        crashes = batch.crashes,
        due_at = case
            when batch.due_in is null or (batch.in_place and task.limit_group is not null) then task.due_at
            else clock.now + batch.due_in
        end
    from clock
        cross join unnest(:batch, n)
    where task.environment = any (array[batch.environment])
        and task.subject = batch.subject
        and task.id = batch.task
        and task.owner = batch.owner
        and task.epoch = batch.epoch
    returning batch.*, task.kind, task.due_at
),
logged as (
    {include log_attempt}
    from kept
    where attempt is not null
)
select n, case when due_in is not null then due_at end
from kept;
