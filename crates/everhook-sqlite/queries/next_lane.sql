-- List the lanes of a feed in the order in which they become ready. Index: lane_ready.
-- Differs: one feed at a time; no limit, because it is read only as far as needed; no locks, because there is one
-- writer.
select {LaneRow}
from lane
where feed = :feed
    and ready_at < 9223372036854775807
    and (ready_at, environment, id) > (:ready_at, :environment, :lane)
order by ready_at, environment, id;
