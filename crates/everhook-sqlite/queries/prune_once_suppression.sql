-- Prune the suppressed calls of a once-slot that was just pruned. Index: once_suppression_slot.
-- No twin: PostgreSQL prunes them with their slots.
delete from once_suppression
where environment = ?1
    and application = ?2
    and key = ?3;
