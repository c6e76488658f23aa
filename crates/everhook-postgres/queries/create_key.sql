-- Keep an API key; a second time changes nothing.
insert into everhook.api_key (id, hash, hint, environment, created_at)
values ($1, $2, $3, $4, everhook.now_us())
on conflict (id) do nothing;
