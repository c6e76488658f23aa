-- Add a resource, unless its id or name is taken. Indexes: the primary key, resource_name.
insert into everhook.resource (environment, kind, parent, id, name, state, revision, created_at, updated_at, spec, info)
select :environment, :kind, :parent, :id, :name, :state, 1, clock.now, clock.now, :spec, :info
from (select :now as now) as clock
where true -- SQLite reads `on conflict` as a join without it.
on conflict do nothing
returning {ResourceRow};
