-- Say what was decided of slots that this transaction has locked: a new winner, or a new phase for the old one. Index: the primary key.
-- Differs: many rows at once; those without a winner were made for claims that were refused, and go.
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
