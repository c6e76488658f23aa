-- List sealed batches without open or dead jobs, whose jobs are pruned. Scans batches, which are fewer than jobs;
-- index: job_batch.
-- No twin: a reader selects them while the writer does other work; `prune_batch` checks again.
select environment, id, 0
from batch
where created_at < ?1
    and intake = 1
    and pending = 0
    and dead = 0
    and not exists (select 1 from job where job.environment = batch.environment and job.batch = batch.id)
order by created_at;
