-- Once-slots of an application as users see them. Index: once_suppression_slot.
select
    key, phase, winner, winner_phase, created_at, claimed_at, updated_at,
    (
        select coalesce(sum(suppression.calls), 0)::bigint
        from everhook.once_suppression as suppression
        where suppression.environment = once_slot.environment
            and suppression.application = once_slot.application
            and suppression.key = once_slot.key
    )
from everhook.once_slot
where environment = :environment
    and application = :application
