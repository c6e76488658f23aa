-- Make a key the one that seals. Index: the primary key.
insert into everhook.seal_key (id, state, created_at)
values (:id, 0, :now)
on conflict (id) do update
set state = 0;
