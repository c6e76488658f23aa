-- Add an environment, unless its id or name exists.
insert into everhook.environment (org, name, created_at)
values (:org, :name, everhook.now_us())
on conflict do nothing;
