-- Sealed batches of which no job is open or dead, and whose jobs have been forgotten. Scans batches, which are few beside jobs; index: job_batch.
-- No twin: chosen while the writer does other work; `prune_batch` asks again.
select environment, id, 0
from batch
where created_at < ?1
    and intake = 1
    and pending = 0
    and dead = 0
    and not exists (select 1 from job where job.environment = batch.environment and job.batch = batch.id)
order by created_at;
