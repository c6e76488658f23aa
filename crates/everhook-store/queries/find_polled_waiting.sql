-- Find the first message without a position, and the time. Index: polled_waiting. The caller compares the times,
-- because a clock function in the condition would keep the index from being used.
select due_at, :now
from everhook.polled
where environment = :environment
    and endpoint = :endpoint
    and position is null
order by due_at
limit 1;
