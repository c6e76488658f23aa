-- Delete jobs with their tasks, attempts and output. Indexes: the primary keys.
-- Differs: many rows at once, from all tables.
with task as (
    delete from everhook.task
    where task.environment = :environment
        and task.subject = any (:ids)
        and task.kind = 1
),
attempt as (
    delete from everhook.attempt
    where attempt.kind = 1
        and attempt.environment = :environment
        and attempt.subject = any (:ids)
),
output as (
    delete from everhook.job_output
    where job_output.environment = :environment
        and job_output.job = any (:ids)
)
delete from everhook.job
where job.environment = :environment
    and job.id = any (:ids);
