-- List the lanes of a feed in the order in which they become ready. Index: lane_ready.
-- Differs: one feed at a time; no limit, because it is read only as far as needed; no locks, because there is one
-- writer.
select environment, id, application, state, ready_at, hold_until, last_position, breaker
from lane
where feed = ?1
    and ready_at < 9223372036854775807
    and (ready_at, environment, id) > (?2, ?3, ?4)
order by ready_at, environment, id;
