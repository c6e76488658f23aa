-- An endpoint by id, also a deleted one. Index: the primary key.
select
    {Endpoint}, deleted_at
from everhook.endpoint
where environment = :environment
    and application = :application
    and id = :id;
