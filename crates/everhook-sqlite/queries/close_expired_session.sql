-- Close a session past its lease. Index: the primary key. After the clock was set back, a lease may end later than one
-- granted now; it is shortened to that, so that it can expire.
-- Differs: one session at a time, selected by `next_expired_session` in the same transaction.
update session
set closed_at = case when lease_until < :now then :now end,
    lease_until = min(lease_until, :now + lease_us)
where id = :id
    and closed_at is null
returning closed_at is not null;
