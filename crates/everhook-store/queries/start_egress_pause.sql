-- Pause egress. A pause that exists already keeps its beginning. Index: the primary key.
insert into everhook.egress_pause (id, since, reason)
values (1, :now, :reason)
on conflict (id) do update set reason = excluded.reason;
