-- The conditions of a list of jobs, except for the batch and the state.
-- No twin: SQLite compares each job that it has found.
    and (:queue::text is null or job.queue = :queue)
    and (:kind::text is null or job.kind = :kind)
    and (:tag::text is null or job.tags::jsonb ? :tag)
    and job.created_at < :before
    and job.created_at >= :after
    and (
        :error::bytea is null
        or strpos(lower(encode(attempt.reply, 'escape')), lower(encode(:error, 'escape'))) > 0
    )
