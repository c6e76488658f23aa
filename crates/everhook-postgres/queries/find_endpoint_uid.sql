-- An endpoint by uid. Index: endpoint_uid.
select
    {Endpoint}, deleted_at
from everhook.endpoint
where environment = :environment
    and application = :application
    and uid = :uid
    and uid is not null
    and deleted_at is null;
