-- Make slots for their first winners; answers those that are new. It waits for whoever is just making the same one. Rows come in key
-- order, so that two batches that share slots wait for each other instead of deadlocking. Index: the primary key.
-- Differs: many rows at once, also such as are there already or will be given up again: a row that is not there cannot be locked.
insert into everhook.once_slot
    (environment, application, key, phase, winner, winner_phase, created_at, claimed_at, updated_at)
select environment, application, key, phase, winner, winner_phase, :now, :now, :now
from unnest(:fresh)
on conflict (environment, application, key) do nothing
returning environment, application, key;
