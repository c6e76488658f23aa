-- Add a resource, unless its id or name is taken. Indexes: the primary key, resource_name.
insert into resource (environment, kind, parent, id, name, state, revision, created_at, updated_at, spec, info)
values (:environment, :kind, :parent, :id, :name, :state, 1, :now, :now, :spec, :info)
on conflict do nothing
returning {ResourceRow};
