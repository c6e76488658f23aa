-- All endpoints of applications, each with the revision it was read at: what fan-out and delivery need of them. Index: the primary
-- key of application, endpoint_open.
-- Differs: many applications at once.
select
    application.environment, application.id, application.revision,
    {endpoint: Endpoint; description = ''; metadata = '{}'}
from unnest(:wanted)
    join everhook.application on application.environment = any (array[wanted.environment])
        and application.id = wanted.id
        and application.deleted_at is null
    left join everhook.endpoint on endpoint.environment = any (array[application.environment])
        and endpoint.application = application.id
        and endpoint.deleted_at is null;
