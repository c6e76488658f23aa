-- Store the time at which a payload is to be erased.
-- Differs: one row at a time.
insert into payload_expiry (due_at, environment, application, message)
values (:due_at, :environment, :application, :message);
