-- Forget a once-slot, unless someone has claimed or reset it meanwhile; the caller forgets its suppressed calls. Index: the primary key.
-- Differs: one row at a time, chosen by `list_expired_once`.
delete from once_slot
where environment = ?1
    and application = ?2
    and key = ?3
    and updated_at < ?4;
