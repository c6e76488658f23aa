-- Find the position before the messages that were accepted at or after a time. Index: the primary key. Positions follow
-- the order of commits, ids the order of arrival: of many neighbours, the first position counts.
select min(near.position)
from (
    select position
    from everhook.polled
    where environment = :environment
        and endpoint = :endpoint
        and message >= :floor
        and position is not null
    order by message
    limit :limit
) as near;
