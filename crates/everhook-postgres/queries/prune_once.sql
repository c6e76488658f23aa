-- Prune once-slots without a claim or reset since, with their suppressed calls. Indexes: the primary key,
-- once_suppression_slot.
-- Differs: skips slots that another transaction is claiming.
with old as materialized (
    select slot.environment, slot.application, slot.key
    from everhook.once_slot as slot
    where slot.updated_at < :before
        and (
            select 1
            from everhook.once_suppression as suppression
            where suppression.environment = slot.environment
                and suppression.application = slot.application
                and suppression.key = slot.key
                and suppression.created_at >= :before
            limit 1
        ) is null
    limit :limit
    for update skip locked
),
suppression as (
    delete from everhook.once_suppression
    using old
    where once_suppression.environment = any (array[old.environment])
        and once_suppression.application = old.application
        and once_suppression.key = old.key
)
delete from everhook.once_slot
using old
where once_slot.environment = any (array[old.environment])
    and once_slot.application = old.application
    and once_slot.key = old.key;
