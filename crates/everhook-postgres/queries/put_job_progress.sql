-- Store the progress of a job if the caller holds it; returns the holder. Indexes: the primary keys.
with held as materialized (
    select task.owner, task.epoch
    from everhook.task
    where task.environment = :environment
        and task.subject = :job
        and task.owner is not null
),
kept as (
    insert into everhook.job_output (environment, job, progress, progress_text, updated_at)
    select :environment, :job, :progress, :text, everhook.now_us()
    from held
    where held.owner = :owner
        and held.epoch = :epoch
    on conflict (environment, job) do update
    set progress = excluded.progress,
        progress_text = excluded.progress_text,
        updated_at = excluded.updated_at
)
select owner, epoch
from held;
