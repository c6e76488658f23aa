-- Store an API key; repeating it changes nothing. Index: the primary key.
insert into api_key (id, hash, hint, environment, created_at)
values (:id, :hash, :hint, :environment, :now)
on conflict (id) do nothing;
