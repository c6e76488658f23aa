-- Write the state of a schedule, and the last job that it started. Index: the primary key.
update schedule
set next = :next,
    queued = :queued,
    look_at = :look_at,
    last_job = coalesce(:last_job, last_job)
where environment = :environment
    and id = :id;
