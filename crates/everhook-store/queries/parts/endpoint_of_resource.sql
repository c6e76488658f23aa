-- An endpoint of an application that is not deleted. Index: resource_open.
select 1
from everhook.resource as endpoint
where endpoint.environment = resource.environment
    and endpoint.kind = 1
    and endpoint.parent = resource.id
    and endpoint.deleted_at is null
