-- All endpoints of an application, for the cache: what fan-out and delivery need of them. Index: resource_open.
-- Differs: one application; the version of its lane group was read by `find_group_version` in the same transaction.
select {endpoint: Endpoint; info = '{}'}
from resource as endpoint
where endpoint.environment = :environment
    and endpoint.kind = 1
    and endpoint.parent = :application
    and endpoint.deleted_at is null;
