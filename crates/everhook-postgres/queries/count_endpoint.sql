-- How many endpoints an application has, counted up to a limit. Index: endpoint_open.
select count(*)
from (
    select 1
    from everhook.endpoint
    where environment = :environment
        and application = :application
        and deleted_at is null
    limit :limit
) as counted;
