-- Write the decision about a once-slot: a new winner, or a new phase for the old winner. Index: the primary key.
-- Differs: one slot at a time.
update once_slot
set phase = :phase,
    winner = :winner,
    winner_phase = :winner_phase,
    claimed_at = case winner when :winner then claimed_at else :now end,
    updated_at = :now
where environment = :environment
    and application = :application
    and key = :key;
