-- Write the states of batches. Index: the primary key.
-- Differs: many rows at once.
update everhook.batch
set intake = told.intake,
    phase = told.phase,
    announced = told.announced,
    pending = told.pending,
    succeeded = told.succeeded,
    dead = told.dead,
    cancelled = told.cancelled,
    skipped = told.skipped
from unnest(:told)
where batch.environment = any (array[told.environment])
    and batch.id = told.id;
