-- Lock the sessions that seem to be past their lease, if that is no longer than the asking node has been steady. The table is small.
-- Differs: SQLite has one writer, so that nobody can renew between this and `close_expired_session`.
select id, lease_us
from everhook.session
where closed_at is null
    and ((lease_until < everhook.now_us() and lease_us <= :steady) or lease_until > everhook.now_us() + lease_us)
order by id
for update skip locked;
