-- The newest applications of an environment, up to a number. Index: resource_open.
select resource.environment, resource.id
from everhook.resource
where resource.environment = :environment
    and resource.kind = 0
    and resource.parent = ''::bytea
    and resource.deleted_at is null
order by resource.id desc
limit :applications_max
