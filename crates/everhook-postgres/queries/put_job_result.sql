-- Keep what came out of jobs. Index: the primary key.
-- Differs: many rows at once.
insert into everhook.job_output as kept (environment, job, result, result_bytes, updated_at)
select environment, job, result, result_bytes, everhook.now_us()
from unnest($1::int[], $2::bytea[], $3::bytea[], $4::int[]) as fresh (environment, job, result, result_bytes)
on conflict (environment, job) do update
set result = excluded.result,
    result_bytes = excluded.result_bytes,
    updated_at = excluded.updated_at;
