-- List the endpoints of all applications, by application and id. Indexes: resource_open, the primary key.
-- Differs: `cross join` keeps the order of the tables, so that the index also sorts.
select {endpoint: Endpoint}, {application: Application}
from resource as endpoint
    cross join resource as application on application.environment = endpoint.environment
        and application.kind = 0
        and application.parent = x''
        and application.id = endpoint.parent
{include endpoint_slice};
