-- A slot, to decide who has it. Index: the primary key.
-- Differs: one at a time, and no lock, because there is one writer.
select phase, winner, winner_phase
from once_slot
where environment = ?1
    and application = ?2
    and key = ?3;
