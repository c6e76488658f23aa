-- Write the record of a job.
-- Differs: one row at a time; a prepared statement costs SQLite no round trip.
insert into job (
    environment, id, queue, kind, name, priority, concurrency_key, tags, batch, rest, created_at, payload
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12);
