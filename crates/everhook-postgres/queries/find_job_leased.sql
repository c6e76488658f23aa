-- Find the records of jobs that were just leased. Index: the primary key.
-- No twin: SQLite reads them one by one. A comparison with a list of ids would be cheaper, but while the statistics say
-- that the table is empty, the planner would read every job of the environment.
select
    job.environment, {job: Job}
from unnest(:wanted)
    cross join lateral (
        select *
        from everhook.job
        where job.environment = wanted.environment
            and job.id = wanted.id
        limit 1
    ) as job;
