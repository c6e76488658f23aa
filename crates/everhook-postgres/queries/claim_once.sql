-- Lock once-slots, to decide which message wins each. Index: the primary key.
-- Differs: many rows at once, in key order, so that two batches that share slots wait for each other instead of
-- deadlocking.
select slot.environment, slot.application, slot.key, {slot: OnceSlot}
from unnest(:wanted)
    join everhook.once_slot as slot on slot.environment = any (array[wanted.environment])
        and slot.application = wanted.application
        and slot.key = wanted.key
order by wanted.environment, wanted.application, wanted.key collate "C"
for no key update of slot;
