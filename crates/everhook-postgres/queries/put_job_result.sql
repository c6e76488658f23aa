-- Store the results of jobs. Index: the primary key.
-- Differs: many rows at once.
insert into everhook.job_output as kept (environment, job, result, result_bytes, updated_at)
select environment, job, result, result_bytes, everhook.now_us()
from unnest(:fresh)
on conflict (environment, job) do update
set result = excluded.result,
    result_bytes = excluded.result_bytes,
    updated_at = excluded.updated_at;
