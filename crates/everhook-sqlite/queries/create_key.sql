-- Keep an API key; repeating it is harmless. Index: the primary key.
insert into api_key (id, hash, hint, environment, created_at)
values (?1, ?2, ?3, ?4, ?5)
on conflict (id) do nothing;
