-- The conditions and the order of a list of jobs, except for the batch.
-- No twin: SQLite compares each job that it has found.
    and job.id > :above
    and job.id < :below
    {include job_filter}
    and (
        :state::smallint is null
        or coalesce(task.state, case attempt.end_state when 0 then 0 when 2 then 2 when 3 then 4 else 3 end) = :state
    )
order by job.id :order
limit :limit
