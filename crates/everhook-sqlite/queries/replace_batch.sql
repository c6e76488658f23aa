-- Write the state of a batch. Index: the primary key.
-- Differs: one batch at a time.
update batch
set intake = :intake,
    phase = :phase,
    announced = :announced,
    pending = :pending,
    succeeded = :succeeded,
    dead = :dead,
    cancelled = :cancelled,
    skipped = :skipped
where environment = :environment
    and id = :id;
