-- Change a schedule that was read at a revision; it begins anew. Index: the primary key.
update everhook.schedule
set spec = $4,
    starts = $5,
    paused = $6,
    next = $7,
    queued = $8,
    look_at = $9,
    updated_at = $10,
    revision = revision + 1
where environment = $1
    and name = $2
    and revision = $3
returning
    environment, id, name, spec, starts, paused, next, queued,
    look_at, created_at, updated_at, revision, last_job;
