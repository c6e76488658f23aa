-- Add an environment, unless its public id exists. Index: environment (org).
insert into environment (org, name, created_at)
values (:org, :name, :now)
on conflict (org) do nothing;
