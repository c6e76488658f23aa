-- Remove jobs with everything that is kept of them. Indexes: the primary keys.
-- Differs: many rows at once, all tables with them.
with task as (
    delete from everhook.task
    where task.environment = $1
        and task.subject = any ($2)
        and task.kind = 1
),
attempt as (
    delete from everhook.job_attempt
    where job_attempt.environment = $1
        and job_attempt.job = any ($2)
),
output as (
    delete from everhook.job_output
    where job_output.environment = $1
        and job_output.job = any ($2)
)
delete from everhook.job
where job.environment = $1
    and job.id = any ($2);
