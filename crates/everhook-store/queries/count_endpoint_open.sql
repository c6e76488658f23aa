-- Count the endpoints of a range of applications, up to a limit, without those of the hidden application. Index:
-- resource_open.
select count(*)
from (
    select 1
    from everhook.resource
    where environment = :environment
        and kind = 1
        and parent >= :low
        and parent <= :high
        and parent <> :hidden
        and deleted_at is null
    limit :limit
) as counted;
