-- List batches in a range of ids. Index: the primary key.
select
    batch.environment, {batch: BatchRecord}
from everhook.batch
where batch.environment = :environment
    and batch.id > :above
    and batch.id < :below
order by batch.id :order
limit :limit;
