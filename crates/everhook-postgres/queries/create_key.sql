-- Store an API key; repeating it changes nothing.
insert into everhook.api_key (id, hash, hint, environment, created_at)
values (:id, :hash, :hint, :environment, everhook.now_us())
on conflict (id) do nothing;
