-- Lock sessions that seem to be past their lease. The table is small. Only leases up to the time for which the asking
-- node has been steady count. A session whose renewal is in progress is locked, and therefore skipped: its holder
-- lives. The second condition finds leases from before the clock was set back.
-- Differs: SQLite has one writer, so no session can renew between this statement and `close_expired_session`.
select id, lease_us
from everhook.session
where closed_at is null
    and ((lease_until < everhook.now_us() and lease_us <= :steady) or lease_until > everhook.now_us() + lease_us)
order by id
for update skip locked;
