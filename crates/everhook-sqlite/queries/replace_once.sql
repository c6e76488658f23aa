-- Write the decision about a once-slot: a new winner, or a new phase for the old winner. Index: the primary key.
-- Differs: one slot at a time.
update once_slot
set phase = ?4,
    winner = ?5,
    winner_phase = ?6,
    claimed_at = case winner when ?5 then claimed_at else ?7 end,
    updated_at = ?7
where environment = ?1
    and application = ?2
    and key = ?3;
