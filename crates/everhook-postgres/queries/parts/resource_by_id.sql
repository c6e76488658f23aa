-- A resource of a kind by its id. Index: the primary key.
-- No twin: SQLite joins the table itself.
from everhook.resource
where resource.environment = {environment}
    and resource.kind = {kind}
    and resource.parent = ''
    and resource.id = {id}
