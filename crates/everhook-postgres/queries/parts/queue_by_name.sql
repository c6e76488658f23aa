-- The configuration of a queue. Index: resource_name.
-- No twin: SQLite joins the table itself.
from everhook.resource
where resource.environment = {environment}
    and resource.kind = 3
    and resource.parent = ''
    and resource.name = {name}
    and resource.deleted_at is null
