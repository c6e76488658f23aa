-- Begin a tenure; a second time changes nothing. Index: the primary key.
insert into everhook.session (id, node, role, version, lease_us, started_at, lease_until)
select $1, $2, $3, $4, $5, clock.now, clock.now + $5
from (select everhook.now_us() as now) as clock
on conflict (id) do nothing;
