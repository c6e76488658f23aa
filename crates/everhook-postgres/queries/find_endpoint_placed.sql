-- Find endpoints with their applications, by the ids of the endpoints alone. Indexes: the primary keys of lane and
-- resource.
-- Differs: many rows at once.
select {endpoint: Endpoint}, {application: ResourceRow}
from unnest(:wanted)
    join everhook.lane on lane.environment = any (array[wanted.environment])
        and lane.id = wanted.id
    join everhook.resource as endpoint on endpoint.environment = lane.environment
        and endpoint.kind = 1
        and endpoint.parent = lane.application
        and endpoint.id = lane.id
        and endpoint.deleted_at is null
    join everhook.resource as application on application.environment = lane.environment
        and application.kind = 0
        and application.parent = ''
        and application.id = lane.application;
