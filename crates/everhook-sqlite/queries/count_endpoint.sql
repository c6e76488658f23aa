-- How many endpoints an application has, counted up to a limit. Index: endpoint_open.
select count(*)
from (
    select 1
    from endpoint
    where environment = ?1
        and application = ?2
        and deleted_at is null
    limit ?3
);
