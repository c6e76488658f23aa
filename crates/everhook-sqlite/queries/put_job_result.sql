-- Store the result of a job. Index: the primary key.
insert into job_output (environment, job, result, result_bytes, updated_at)
values (:environment, :job, :result, :result_bytes, :now)
on conflict (environment, job) do update
set result = excluded.result,
    result_bytes = excluded.result_bytes,
    updated_at = excluded.updated_at;
