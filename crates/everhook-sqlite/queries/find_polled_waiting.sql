-- Find the first message without a position. Index: polled_waiting.
select due_at
from polled
where environment = :environment
    and endpoint = :endpoint
    and position is null
order by due_at
limit 1;
