-- List the alert rules of all environments. Environments are few; each is one range of the primary key of resource.
select {alert: ResourceRow}
from environment
    join resource as alert on alert.environment = environment.id
        and alert.kind = 11
        and alert.parent = x''
        and alert.deleted_at is null
limit :limit;
