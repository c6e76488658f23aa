-- Lanes in the order in which they become ready. Index: lane_ready.
-- Differs: no `skip locked`, because there is one writer.
select environment, id, application, state, ready_at
from lane
where ready_at < 9223372036854775807
order by ready_at
limit ?1;
