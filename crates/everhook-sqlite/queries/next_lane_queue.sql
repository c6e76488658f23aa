-- Lanes of a queue in the order in which they become ready. Index: lane_queue.
-- Differs: one queue at a time, and read only as far as needed, so that it has no limit; no locks, because there is one writer.
select id, max(next_due, hold_until)
from lane
where environment = ?1
    and queue = ?2
    and max(next_due, hold_until) < 9223372036854775807
order by max(next_due, hold_until), id;
