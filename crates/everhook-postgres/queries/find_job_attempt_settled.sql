-- As `find_attempt_settled`, of jobs. Index: the primary key.
-- Differs: many rows at once.
select batch.n
from unnest(:batch, n)
    join everhook.job_attempt as attempt on attempt.environment = any (array[batch.environment])
        and attempt.job = batch.subject
        and attempt.task = batch.task
        and attempt.epoch = batch.epoch
        and attempt.id = batch.id;
