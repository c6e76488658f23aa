-- Open a session; repeating it changes nothing. Index: the primary key.
insert into everhook.session (id, node, role, version, lease_us, started_at, lease_until)
select :id, :node, :role, :version, :lease_us, clock.now, clock.now + :lease_us
from (select :now as now) as clock
where true -- SQLite reads `on conflict` as a join without it.
on conflict (id) do nothing;
