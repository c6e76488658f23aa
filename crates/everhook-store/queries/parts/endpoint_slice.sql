-- A slice of the endpoints of all applications, by application and id. Index: resource_open.
where endpoint.environment = :environment
    and endpoint.kind = 1
    and endpoint.deleted_at is null
    and (endpoint.parent, endpoint.id) > (:above_parent, :above)
    and (endpoint.parent, endpoint.id) < (:below_parent, :below)
order by endpoint.parent :order, endpoint.id :order
limit :limit
