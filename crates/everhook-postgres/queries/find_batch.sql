-- One batch. Index: the primary key.
select
    batch.environment, batch.id, batch.application, batch.name, batch.prefix, batch.metadata, batch.created_at, batch.intake, batch.phase,
    batch.announced, batch.pending, batch.succeeded, batch.dead, batch.cancelled, batch.skipped
from everhook.batch
where batch.environment = $1
    and batch.id = $2;
