-- Read a once-slot, to decide which message wins it. Index: the primary key.
-- Differs: one slot at a time, without a lock, because there is one writer.
select {OnceSlot}
from once_slot
where environment = :environment
    and application = :application
    and key = :key;
