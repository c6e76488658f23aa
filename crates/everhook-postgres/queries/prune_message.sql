-- Prune messages without open deliveries, with their attempts. Indexes: the primary keys.
-- Differs: partitions are read from the oldest on, in no order within one. Whole weeks have been dropped before.
with old as materialized (
    select message.environment, message.application, message.id
    from everhook.message
    where message.id < :floor
        and (
            select 1
            from everhook.task
            where task.environment = message.environment
                and task.subject = message.id
            limit 1
        ) is null
    limit :limit
    for update skip locked
),
attempt as (
    delete from everhook.attempt
    using old
    where attempt.kind = 0
        and attempt.environment = any (array[old.environment])
        and attempt.subject = old.id
)
delete from everhook.message
using old
where message.environment = any (array[old.environment])
    and message.application = old.application
    and message.id = old.id;
