-- Write a message.
-- Differs: one row at a time; a prepared statement costs SQLite no round trip.
insert into message (environment, application, id, event_type, event_id, channels, tags, payload, created_at, rest)
values (:environment, :application, :id, :event_type, :event_id, :channels, :tags, :payload, :created_at, :rest);
