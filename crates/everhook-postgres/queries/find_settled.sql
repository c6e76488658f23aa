-- Find attempts that were logged earlier: a repeated settlement finds its own row. Index: the primary key.
-- Differs: many rows at once. The kind limits the search to the partitions of that kind.
select batch.n
from unnest(:batch, n)
    join everhook.attempt on attempt.kind = batch.kind
        and attempt.environment = any (array[batch.environment])
        and attempt.subject = batch.subject
        and attempt.task = batch.task
        and attempt.epoch = batch.epoch
        and attempt.id = batch.id;
