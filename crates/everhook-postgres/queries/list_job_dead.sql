-- List dead jobs, like `list_job`. Index: task_dead_job.
-- Differs: as in `list_job`.
{include job_open}
    and task.state = 2
    and :state = 2
    and (:batch::bytea is null or job.batch = :batch)
    {include job_filter}
order by task.subject :order
limit :limit;
