-- Create a once-slot for its first winner. Index: the primary key.
-- Differs: one slot at a time, and only if it does not exist, because there is one writer.
insert into once_slot (
    environment, application, key, phase, winner, winner_phase, created_at, claimed_at, updated_at
)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?7);
