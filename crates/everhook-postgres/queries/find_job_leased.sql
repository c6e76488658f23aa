-- The records of jobs that were leased just now. Index: the primary key.
-- No twin: SQLite reads them one by one. A list of ids would be cheaper to look up, but while the statistics say that the table is empty,
-- the planner reads everything of the environment instead.
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
