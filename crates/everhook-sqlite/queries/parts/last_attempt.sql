-- The last attempt of a job. Index: the primary key.
-- No twin: PostgreSQL has the function `last_attempt_of_job`.
left join attempt as last on last.environment = job.environment
    and last.subject = job.id
    and (last.task, last.epoch) = (
        select latest.task, latest.epoch
        from attempt as latest
        where latest.environment = job.environment
            and latest.subject = job.id
        order by latest.task desc, latest.epoch desc
        limit 1
    )
