-- Write the decisions about locked once-slots: a new winner, or a new phase for the old winner. Index: the primary key.
-- Differs: many rows at once. Slots without a winner were created for claims that were refused, and are deleted.
with decided as materialized (
    select environment, application, key, phase, winner, winner_phase
    from unnest(:decided)
),
unwon as (
    delete from everhook.once_slot as slot
    using decided
    where slot.environment = any (array[decided.environment])
        and slot.application = decided.application
        and slot.key = decided.key
        and decided.winner is null
)
update everhook.once_slot as slot
set phase = decided.phase,
    winner = decided.winner,
    winner_phase = decided.winner_phase,
    claimed_at = case slot.winner when decided.winner then slot.claimed_at else :now end,
    updated_at = :now
from decided
where slot.environment = any (array[decided.environment])
    and slot.application = decided.application
    and slot.key = decided.key
    and decided.winner is not null;
