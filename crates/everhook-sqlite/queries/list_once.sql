-- List an application's once-slots in a range of keys. Indexes: the primary key, once_suppression_slot.
select
    key, phase, winner, winner_phase, created_at, claimed_at, updated_at,
    (
        select coalesce(sum(suppression.calls), 0)
        from once_suppression as suppression
        where suppression.environment = once_slot.environment
            and suppression.application = once_slot.application
            and suppression.key = once_slot.key
    )
from once_slot
where environment = :environment
    and application = :application
    and key > :above
    and key < :below
order by key :order
limit :limit;
