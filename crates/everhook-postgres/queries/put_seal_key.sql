-- Make a key the one that seals. Index: the primary key.
-- Differs: reads the clock of the database.
insert into everhook.seal_key (id, state, created_at)
values (:id, 0, everhook.now_us())
on conflict (id) do update
set state = 0;
