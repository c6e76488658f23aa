-- Lock a resource that is not deleted, until it is replaced. Index: the primary key.
-- No twin: SQLite has one writer.
select {resource: ResourceRow}
from everhook.resource
where resource.environment = :environment
    and resource.kind = :kind
    and resource.parent = :parent
    and resource.id = :id
    and resource.deleted_at is null
for no key update;
