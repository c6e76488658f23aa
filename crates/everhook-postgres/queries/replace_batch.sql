-- Keep where batches stand. Index: the primary key.
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
from unnest(
    $1::int[], $2::bytea[], $3::smallint[], $4::int[], $5::smallint[], $6::int[], $7::int[], $8::int[], $9::int[], $10::int[]
) as told (environment, id, intake, phase, announced, pending, succeeded, dead, cancelled, skipped)
where batch.environment = any (array[told.environment])
    and batch.id = told.id;
