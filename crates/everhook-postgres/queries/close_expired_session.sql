-- Close locked sessions past their lease. Index: the primary key. The clock is read here, while the locks are held: no
-- renewal can happen between this reading and the close. After the clock was set back, a lease may end later than one
-- granted now; it is shortened to that, so that it can expire.
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
