-- Batches, locked, to tell them what was done to their jobs. Index: the primary key.
-- No twin: SQLite has one writer. Locks are taken in key order, so that two transactions wait for each other instead of deadlocking.
select
    batch.environment, {batch: BatchRecord}
from unnest(:wanted)
    join everhook.batch on batch.environment = any (array[wanted.environment])
        and batch.id = wanted.id
order by wanted.environment, wanted.id
for no key update of batch;
