-- Count the resources of a kind that a parent has, up to a limit. Index: resource_open.
select count(*)
from (
    select 1
    from everhook.resource
    where environment = :environment
        and kind = :kind
        and parent = :parent
        and deleted_at is null
    limit :limit
) as counted;
