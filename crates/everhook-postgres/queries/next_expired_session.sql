-- Lock the sessions that seem to be past their lease. The table is small.
-- Differs: SQLite has one writer, so that nobody can renew between this and `close_expired_session`.
select id, lease_us
from everhook.session
where closed_at is null
    and (lease_until < everhook.now_us() or lease_until > everhook.now_us() + lease_us)
order by id
for update skip locked;
