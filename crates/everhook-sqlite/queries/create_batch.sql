-- Add a batch without jobs.
insert into batch (
    environment, id, application, name, prefix, metadata, created_at, intake, phase, pending, succeeded, dead, cancelled, skipped
)
values (:environment, :id, :application, :name, :prefix, :metadata, :now, :intake, :phase, 0, 0, 0, 0, 0);
