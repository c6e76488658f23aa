-- Write the record of a job.
-- Differs: one row at a time; a prepared statement costs SQLite no round trip.
insert into job (
    environment, id, queue, kind, name, priority, concurrency_key, tags, batch, rest, created_at, payload
)
values (:environment, :id, :queue, :kind, :name, :priority, :concurrency_key, :tags, :batch, :rest, :now, :payload);
