-- Sessions that are past their lease, if that is no longer than the asking node has been steady, or have one that is too long to be
-- true. Scans: sessions are few.
-- Differs: no locks; nobody renews between this and `close_expired_session`, because there is one writer.
select id
from session
where closed_at is null
    and ((lease_until < ?1 and lease_us <= ?2) or lease_until > ?1 + lease_us);
