-- List the endpoints of an application as fan-out and delivery need them, each with the application's spec. Indexes:
-- resource_open, the primary key. The hidden application of operational endpoints has no row.
-- Differs: one application; `find_group_version` has read the version of its lane group in the same transaction.
select {endpoint: Endpoint; info = '{}'}, application.spec
from resource as endpoint
    left join resource as application on application.environment = endpoint.environment
        and application.kind = 0
        and application.parent = x''
        and application.id = endpoint.parent
where endpoint.environment = :environment
    and endpoint.kind = 1
    and endpoint.parent = :application
    and endpoint.deleted_at is null;
