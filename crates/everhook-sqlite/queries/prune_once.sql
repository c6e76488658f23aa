-- Prune a once-slot, unless it was claimed or reset in the meantime. Index: the primary key. The caller prunes its
-- suppressed calls.
-- Differs: one row at a time, selected by `list_expired_once`.
delete from once_slot
where environment = ?1
    and application = ?2
    and key = ?3
    and updated_at < ?4;
