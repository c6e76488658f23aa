-- Log the calls that a once-slot suppressed in this transaction.
-- Differs: one row at a time.
insert into once_suppression (environment, application, key, winner, calls, created_at)
values (:environment, :application, :key, :winner, :calls, :now);
