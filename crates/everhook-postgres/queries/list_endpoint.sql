-- An application's endpoints between two ids. Index: the primary key.
select
    {Endpoint}
from everhook.endpoint
where environment = :environment
    and application = :application
    and id > :above
    and id < :below
    and deleted_at is null
order by id :order
limit :limit;
