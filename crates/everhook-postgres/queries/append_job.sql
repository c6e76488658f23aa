-- Write the records of jobs.
-- Differs: many rows at once.
insert into everhook.job
    (environment, id, queue, kind, name, payload, priority, concurrency_key, tags, batch, rest, created_at)
select environment, id, queue, kind, name, payload, priority, concurrency_key, tags, batch, rest, :created_at
from unnest(:fresh);
