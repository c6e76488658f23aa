-- Make an environment, unless its public id exists. Index: environment (org).
insert into environment (org, name, created_at)
values (?1, ?2, ?3)
on conflict (org) do nothing;
