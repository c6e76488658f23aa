-- Add a batch without jobs, unless it exists.
insert into everhook.batch (
    environment, id, application, name, prefix, metadata, created_at, intake, phase, announced, pending, succeeded, dead, cancelled, skipped
)
values (:environment, :id, :application, :name, :prefix, :metadata, everhook.now_us(), :intake, :phase, null, 0, 0, 0, 0, 0)
on conflict do nothing
returning
    environment, {BatchRecord};
