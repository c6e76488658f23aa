-- List pending or leased jobs, like `list_job`. Index: the primary key of task.
-- Differs: as in `list_job`.
{include job_open}
    and task.state = :state
    and (:batch::bytea is null or job.batch = :batch)
    {include job_filter}
order by task.subject :order
limit :limit;
