-- List the endpoints of all applications, by application and id. Indexes: resource_open, the primary key.
select {endpoint: Endpoint}, {application: Application}
from everhook.resource as endpoint
    join everhook.resource as application on application.environment = endpoint.environment
        and application.kind = 0
        and application.parent = ''
        and application.id = endpoint.parent
{include endpoint_slice};
