-- Add a batch without jobs, unless it is there.
insert into everhook.batch (
    environment, id, application, name, prefix, metadata, created_at, intake, phase, announced, pending, succeeded, dead, cancelled, skipped
)
values ($1, $2, $3, $4, $5, $6, everhook.now_us(), $7, $8, null, 0, 0, 0, 0, 0)
on conflict do nothing
returning
    environment, id, application, name, prefix, metadata, created_at, intake, phase,
    announced, pending, succeeded, dead, cancelled, skipped;
