-- Prune jobs that succeeded or were cancelled, with their attempts and output. Indexes: the primary keys.
-- Differs: partitions are read from the oldest on, in no order within one. Whole weeks have been dropped before.
with old as materialized (
    select job.environment, job.id
    from everhook.job
    where job.id < :floor
        and (
            select 1
            from everhook.task
            where task.environment = job.environment
                and task.subject = job.id
            limit 1
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
    delete from everhook.attempt
    using old
    where attempt.kind = 1
        and attempt.environment = any (array[old.environment])
        and attempt.subject = old.id
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
