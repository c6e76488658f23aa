-- Keep where a schedule stands after a look, and which job it started last. Index: the primary key.
update schedule
set next = :next,
    queued = :queued,
    look_at = :look_at,
    last_job = coalesce(:last_job, last_job)
where environment = :environment
    and id = :id;
