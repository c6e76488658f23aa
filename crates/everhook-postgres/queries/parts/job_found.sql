-- Jobs of an environment with their open tasks, last attempts and outputs.
-- No twin: SQLite lists ids, and finds each job by itself.
{include job_state}
from everhook.job
    left join everhook.task_of_job(job.environment, job.id) as task on true
    left join everhook.last_attempt_of_job(job.environment, job.id) as attempt on true
    left join everhook.output_of_job(job.environment, job.id) as output on true
where job.environment = :environment
