-- Add a batch without jobs.
insert into batch (
    environment, id, application, name, prefix, metadata, created_at, intake, phase, pending, succeeded, dead, cancelled, skipped
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, 0, 0, 0, 0);
