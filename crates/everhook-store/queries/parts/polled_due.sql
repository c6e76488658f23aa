-- The next messages of a poller, up to a number. Index: polled_waiting.
from everhook.polled
where environment = :environment
    and endpoint = :endpoint
    and position is null
    and due_at <= :now
order by due_at, message
limit :limit
