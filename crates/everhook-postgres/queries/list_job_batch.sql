-- List the jobs of a batch, like `list_job`. Index: job_batch.
-- Differs: as in `list_job`.
select
    {job: Job; payload = null::bytea}, job.created_at,
    {include job_found}
    and job.batch = :batch
    {include job_page};
