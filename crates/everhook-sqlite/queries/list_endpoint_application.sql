-- List the endpoints of an application as fan-out and delivery need them. Index: resource_open.
-- Differs: one application; `find_group_version` has read the version of its lane group in the same transaction.
select {endpoint: Endpoint; info = '{}'}
from resource as endpoint
where endpoint.environment = :environment
    and endpoint.kind = 1
    and endpoint.parent = :application
    and endpoint.deleted_at is null;
