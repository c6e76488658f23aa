-- Find one batch. Index: the primary key.
select
    batch.environment, {batch: BatchRecord}
from everhook.batch
where batch.environment = :environment
    and batch.id = :id;
