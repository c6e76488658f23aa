-- Write a message.
-- Differs: one row at a time; a prepared statement costs SQLite no round trip.
insert into message (environment, application, id, event_type, event_id, channels, tags, payload, created_at, rest)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10);
