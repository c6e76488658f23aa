-- Find an endpoint with its application, by the id of the endpoint alone. Indexes: the primary keys of lane and
-- resource.
select {endpoint: Endpoint}, {application: Application}
from lane
    cross join resource as endpoint on endpoint.environment = lane.environment
        and endpoint.kind = 1
        and endpoint.parent = lane.application
        and endpoint.id = lane.id
        and endpoint.deleted_at is null
    cross join resource as application on application.environment = lane.environment
        and application.kind = 0
        and application.parent = x''
        and application.id = lane.application
where lane.environment = :environment
    and lane.id = :id;
