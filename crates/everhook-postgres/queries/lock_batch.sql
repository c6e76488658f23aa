-- Lock batches, to update them with changes of their jobs. Index: the primary key.
-- No twin: SQLite has one writer. Locks are taken in key order, so that two transactions wait for each other instead of
-- deadlocking.
select
    batch.environment, {batch: BatchRecord}
from unnest(:wanted)
    join everhook.batch on batch.environment = any (array[wanted.environment])
        and batch.id = wanted.id
order by wanted.environment, wanted.id
for no key update of batch;
