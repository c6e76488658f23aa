-- List the endpoints of all applications, by application and id. Indexes: resource_open, the primary key.
select {endpoint: Endpoint}, {application: ResourceRow}
from everhook.resource as endpoint
    join everhook.resource as application on application.environment = endpoint.environment
        and application.kind = 0
        and application.parent = ''
        and application.id = endpoint.parent
where endpoint.environment = :environment
    and endpoint.kind = 1
    and endpoint.deleted_at is null
    and (endpoint.parent, endpoint.id) > (:above_parent, :above)
    and (endpoint.parent, endpoint.id) < (:below_parent, :below)
order by endpoint.parent :order, endpoint.id :order
limit :limit;
