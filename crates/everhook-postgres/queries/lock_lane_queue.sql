-- Lock lanes of a queue against leases and against new tasks, in key order like all other statements. Index:
-- lane_queue.
-- No twin: SQLite has one writer.
select lane.id
from everhook.lane
where lane.environment = :environment
    and lane.queue = :queue
order by lane.id
limit :limit
for update;
