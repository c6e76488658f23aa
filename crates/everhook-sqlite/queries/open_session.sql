-- Open a session; repeating it changes nothing. Index: the primary key.
insert into session (id, node, role, version, lease_us, started_at, lease_until)
values (:id, :node, :role, :version, :lease_us, :now, :lease_until)
on conflict (id) do nothing;
