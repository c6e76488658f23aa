-- Remember when to erase a payload.
-- Differs: one row at a time.
insert into payload_expiry (due_at, environment, application, message)
values (?1, ?2, ?3, ?4);
