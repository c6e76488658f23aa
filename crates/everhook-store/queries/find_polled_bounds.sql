-- Find the first position of a poller that is not pruned, and its last position. Indexes: polled_position, the primary
-- key of poller.
select
    (
        select polled.position
        from everhook.polled
        where polled.environment = :environment
            and polled.endpoint = :endpoint
            and polled.position is not null
        order by polled.position
        limit 1
    ),
    poller.position
from everhook.poller
where poller.environment = :environment
    and poller.endpoint = :endpoint;
