-- List the endpoints of all applications, by application and id. Indexes: resource_open, the primary key.
-- Differs: `cross join` keeps the order of the tables, so that the index also sorts.
select {endpoint: Endpoint}, {application: ResourceRow}
from resource as endpoint
    cross join resource as application on application.environment = endpoint.environment
        and application.kind = 0
        and application.parent = x''
        and application.id = endpoint.parent
where endpoint.environment = :environment
    and endpoint.kind = 1
    and endpoint.deleted_at is null
    and (endpoint.parent, endpoint.id) > (:above_parent, :above)
    and (endpoint.parent, endpoint.id) < (:below_parent, :below)
order by endpoint.parent :order, endpoint.id :order
limit :limit;
