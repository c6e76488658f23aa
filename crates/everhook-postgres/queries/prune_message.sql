-- Prune messages without open deliveries, with their attempts. Indexes: the primary keys.
-- Differs: partitions are read from the oldest on, in no order within one. Whole weeks have been dropped before.
with old as materialized (
    select message.environment, message.application, message.id
    from everhook.message
    where message.id < :floor
        and (
            {include task_of_subject; subject = message}
        ) is null
    limit :limit
    for update skip locked
),
attempt as (
    {include prune_attempt; kind = 0}
)
delete from everhook.message
using old
where message.environment = any (array[old.environment])
    and message.application = old.application
    and message.id = old.id;
