-- Find a job with its open task, last attempt and output, in one snapshot. Indexes: the primary keys.
select
    {job: Job}, job.created_at,
    {include job_found}
    and job.id = :id;
