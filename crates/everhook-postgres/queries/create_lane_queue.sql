-- Add the lanes of queues that are not there yet, open and empty. It waits for whoever is just adding the same one. Rows come
-- in key order, so that two batches that share lanes wait for each other instead of deadlocking. Index: the primary key.
-- Differs: many rows at once.
insert into everhook.lane (environment, id, feed, state, queue)
select environment, id, feed, 0, queue
from unnest(:fresh)
on conflict (environment, id) do nothing;
