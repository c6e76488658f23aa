-- List the endpoints of an application as fan-out and delivery need them, each with the specs of the application and of
-- the environment's policy. Indexes: resource_open, the primary key. The hidden application of operational endpoints
-- has no row.
-- Differs: one application; `find_group_version` has read the version of its lane group in the same transaction.
select {endpoint: Endpoint; info = '{}'}, application.spec, policy.spec
from resource as endpoint
    left join resource as application on application.environment = endpoint.environment
        and application.kind = 0
        and application.parent = x''
        and application.id = endpoint.parent
    left join resource as policy on policy.environment = endpoint.environment
        and policy.kind = 6
        and policy.parent = x''
        and policy.id = :policy
where endpoint.environment = :environment
    and endpoint.kind = 1
    and endpoint.parent = :application
    and endpoint.deleted_at is null;
