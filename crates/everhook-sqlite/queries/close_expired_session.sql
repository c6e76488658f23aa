-- Close a session past its lease. A lease that ends later than one granted now would (the clock was set back) is cut to that, so that
-- it can end. Index: the primary key.
-- Differs: one at a time, chosen by `next_expired_session` in the same transaction.
update session
set closed_at = case when lease_until < ?2 then ?2 end,
    lease_until = min(lease_until, ?2 + lease_us)
where id = ?1
    and closed_at is null
returning closed_at is not null;
