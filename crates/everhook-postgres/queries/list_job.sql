-- List jobs in a range of ids, filtered. Index: the primary key; those of the other tables for each job.
-- Differs: `jsonb` tests the members of a JSON array; only ASCII letters are compared without case.
select
    {job: Job; payload = null::bytea}, job.created_at,
    {include job_found}
    and (:batch::bytea is null or job.batch = :batch)
    {include job_page};
