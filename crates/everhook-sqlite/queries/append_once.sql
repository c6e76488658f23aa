-- Create a once-slot for its first winner. Index: the primary key.
-- Differs: one slot at a time, and only if it does not exist, because there is one writer.
insert into once_slot (
    environment, application, key, phase, winner, winner_phase, created_at, claimed_at, updated_at
)
values (:environment, :application, :key, :phase, :winner, :winner_phase, :now, :now, :now);
