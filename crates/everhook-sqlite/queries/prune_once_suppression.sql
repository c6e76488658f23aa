-- Forget the calls that a slot has suppressed which was just forgotten. Index: once_suppression_slot.
-- No twin: PostgreSQL forgets them with their slots.
delete from once_suppression
where environment = ?1
    and application = ?2
    and key = ?3;
