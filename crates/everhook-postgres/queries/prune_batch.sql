-- Prune batches without open or dead jobs. Index: the primary key.
with old as materialized (
    select batch.environment, batch.id
    from everhook.batch
    where batch.created_at < :before
        and batch.intake = :intake
        and batch.pending = 0
        and batch.dead = 0
    limit :limit
    for update skip locked
)
delete from everhook.batch
using old
where batch.environment = any (array[old.environment])
    and batch.id = old.id;
