-- Add an environment, unless its id or name is there.
insert into everhook.environment (org, name, created_at)
values ($1, $2, everhook.now_us())
on conflict do nothing;
