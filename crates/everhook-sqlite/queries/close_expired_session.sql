-- Close every session past its lease; one far in the future counts as renewed just now. Scans: sessions are few.
-- Differs: the writer's transaction is the lock; the clock was read after it was had.
update session
set closed_at = ?1
where closed_at is null
    and min(lease_until, ?1 + lease_us) < ?1
returning id;
