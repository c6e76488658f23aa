-- Prune jobs that succeeded or were cancelled, with their attempts and output. Indexes: the primary keys.
-- Differs: partitions are read from the oldest on, in no order within one. Whole weeks have been dropped before.
with old as materialized (
    select job.environment, job.id
    from everhook.job
    where job.id < :floor
        and (
            {include task_of_subject; subject = job}
        ) is null
        and (
            select 1
            from everhook.attempt
            where attempt.kind = 1
                and attempt.environment = job.environment
                and attempt.subject = job.id
                and attempt.started_at + attempt.duration_us >= :before
            limit 1
        ) is null
    limit :limit
    for update skip locked
),
attempt as (
    {include prune_attempt; kind = 1}
),
output as (
    delete from everhook.job_output
    using old
    where job_output.environment = any (array[old.environment])
        and job_output.job = old.id
)
delete from everhook.job
using old
where job.environment = any (array[old.environment])
    and job.id = old.id;
