-- List sessions past their lease, if the lease is no longer than the asking node has been steady. Scans: sessions are
-- few. Also lists leases that are too long to be valid, because the clock was set back.
-- Differs: no locks; no session can renew between this statement and `close_expired_session`, because there is one
-- writer.
select id
from session
where closed_at is null
    and ((lease_until < :now and lease_us <= :steady) or lease_until > :now + lease_us);
