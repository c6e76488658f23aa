-- The lanes of a queue that are ready, those that have been longest first. Index: lane_ready.
-- Differs: a whole statement. SQLite joins the lanes to their tasks at once.
select lane.environment, lane.id
from everhook.lane
where lane.feed = :feed
    and lane.environment = :environment
    and lane.ready_at < 9223372036854775807
order by lane.ready_at
