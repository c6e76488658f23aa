-- Read a once-slot, to decide which message wins it. Index: the primary key.
-- Differs: one slot at a time, without a lock, because there is one writer.
select phase, winner, winner_phase
from once_slot
where environment = ?1
    and application = ?2
    and key = ?3;
