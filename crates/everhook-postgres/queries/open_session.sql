-- Open a session; repeating it changes nothing. Index: the primary key.
insert into everhook.session (id, node, role, version, lease_us, started_at, lease_until)
select :id, :node, :role, :version, :lease_us, clock.now, clock.now + :lease_us
from (select everhook.now_us() as now) as clock
on conflict (id) do nothing;
