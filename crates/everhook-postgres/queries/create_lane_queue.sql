-- Add the lanes of queues that are not there yet; to deliveries they look held. It waits for whoever is just adding the same one. Rows come
-- in key order, so that two batches that share lanes wait for each other instead of deadlocking. Index: the primary key.
-- Differs: many rows at once.
insert into everhook.lane (environment, id, application, state, queue)
select environment, id, '', 1, queue
from unnest(:fresh)
on conflict (environment, id) do nothing;
