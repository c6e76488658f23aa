-- Count the consumers of a poller, up to a limit. Index: the primary key.
select count(*)
from (
    select 1
    from everhook.poll_consumer
    where environment = :environment
        and endpoint = :endpoint
    limit :limit
) as known;
