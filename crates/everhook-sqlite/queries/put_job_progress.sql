-- Store the progress of a job. Index: the primary key.
insert into job_output (environment, job, progress, progress_text, updated_at)
values (:environment, :job, :progress, :text, :now)
on conflict (environment, job) do update
set progress = excluded.progress,
    progress_text = excluded.progress_text,
    updated_at = excluded.updated_at;
