-- Close locked sessions past their lease, by a clock that is read now that they are locked. A lease that ends later than one granted
-- now would (the clock was set back) is cut to that, so that it can end. Index: the primary key.
-- Differs: only sessions that `next_expired_session` locked.
with clock as materialized (
    select everhook.now_us() as now
)
update everhook.session
set closed_at = case when lease_until < clock.now then clock.now end,
    lease_until = least(lease_until, clock.now + lease_us)
from clock
where id = any (:ids)
    and closed_at is null
    and (lease_until < clock.now or lease_until > clock.now + lease_us)
returning id, closed_at is not null;
