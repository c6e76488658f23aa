-- Keep where a schedule stands after a look, and which job it started last. Index: the primary key.
update schedule
set next = ?3,
    queued = ?4,
    look_at = ?5,
    last_job = coalesce(?6, last_job)
where environment = ?1
    and name = ?2;
