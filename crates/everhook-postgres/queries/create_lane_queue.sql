-- Add missing lanes of queues, open and empty. Index: the primary key. Waits for a transaction that is adding the same
-- lane. Rows are in key order, so that two batches that share lanes wait for each other instead of deadlocking.
-- Differs: many rows at once.
insert into everhook.lane (environment, id, feed, state, queue)
select environment, id, feed, 0, queue
from unnest(:fresh)
on conflict (environment, id) do nothing;
