-- Store an API key; repeating it changes nothing.
insert into everhook.api_key (id, hash, hint, name, environment, application, scope, rights, created_at, expires_at)
values (:id, :hash, :hint, :name, :environment, :application, :scope, :rights, :now, :expires_at)
on conflict (id) do nothing;
