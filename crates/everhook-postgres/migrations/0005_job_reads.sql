-- The rows that belong to a job, for the statements that show jobs. Each function has one plain `select`, so that
-- PostgreSQL replaces its call in a `from` clause by that `select` and plans the whole statement at once.

-- The newest task of a job: open or dead.
create function everhook.task_of_job(environment integer, job bytea) returns setof everhook.task
language sql stable rows 1 as $$
    select task.*
    from everhook.task
    where task.environment = $1
        and task.subject = $2
    order by task.id desc
    limit 1
$$;

-- The last attempt of a job.
create function everhook.last_attempt_of_job(environment integer, job bytea) returns setof everhook.attempt
language sql stable rows 1 as $$
    select attempt.*
    from everhook.attempt
    where attempt.kind = 1
        and attempt.environment = $1
        and attempt.subject = $2
    order by attempt.task desc, attempt.epoch desc
    limit 1
$$;

-- The progress and result of a job.
create function everhook.output_of_job(environment integer, job bytea) returns setof everhook.job_output
language sql stable rows 1 as $$
    select job_output.*
    from everhook.job_output
    where job_output.environment = $1
        and job_output.job = $2
    limit 1
$$;
