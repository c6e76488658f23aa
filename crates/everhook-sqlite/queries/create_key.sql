-- Keep an API key; repeating it is harmless. Index: the primary key.
insert into api_key (id, hash, hint, environment, created_at)
values (:id, :hash, :hint, :environment, :now)
on conflict (id) do nothing;
