-- Add a schedule, unless its name is taken. Index: the primary key.
insert into everhook.schedule
    (environment, id, name, spec, starts, paused, next, queued, look_at, created_at, updated_at, revision)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, 1)
on conflict (environment, name) do nothing
returning
    environment, id, name, spec, starts, paused, next, queued,
    look_at, created_at, updated_at, revision, last_job;
