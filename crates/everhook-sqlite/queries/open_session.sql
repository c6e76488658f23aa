-- Open a session; repeating it changes nothing. Index: the primary key.
insert into session (id, node, role, version, lease_us, started_at, lease_until)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7)
on conflict (id) do nothing;
