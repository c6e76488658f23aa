-- Extend a tenure by its lease, unless it is closed. Index: the primary key.
-- Differs: answers the timeline, which is another one after a standby took over.
update everhook.session
set lease_until = everhook.now_us() + lease_us
where id = $1
    and closed_at is null
returning lease_until - lease_us, substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8);
