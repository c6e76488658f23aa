-- Create once-slots for their first winners; returns the new slots. Index: the primary key. Waits for a transaction
-- that is creating the same slot. Rows are in key order, so that two batches that share slots wait for each other
-- instead of deadlocking.
-- Differs: many rows at once, including slots that exist or may be deleted again: a row must exist before it can be
-- locked.
insert into everhook.once_slot
    (environment, application, key, phase, winner, winner_phase, created_at, claimed_at, updated_at)
select environment, application, key, phase, winner, winner_phase, :now, :now, :now
from unnest(:fresh)
on conflict (environment, application, key) do nothing
returning environment, application, key;
