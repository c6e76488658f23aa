-- All endpoints of applications, each with the revision it was read at: what fan-out and delivery need of them. Index: the primary
-- key of application, endpoint_open.
-- Differs: many applications at once.
select
    application.environment, application.id, application.revision,
    endpoint.id, endpoint.application, endpoint.uid, endpoint.url, '', endpoint.state, endpoint.event_types,
    endpoint.channels, endpoint.headers, endpoint.throttle_rate, '{}', endpoint.version, endpoint.keys,
    endpoint.created_at, endpoint.updated_at, endpoint.revision
from unnest($1::int[], $2::bytea[]) as wanted (environment, id)
    join everhook.application on application.environment = any (array[wanted.environment])
        and application.id = wanted.id
        and application.deleted_at is null
    left join everhook.endpoint on endpoint.environment = any (array[application.environment])
        and endpoint.application = application.id
        and endpoint.deleted_at is null;
