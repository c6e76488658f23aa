-- Lock some lanes of a queue against everyone who might add to them or take from them, in key order like everybody else. Index: lane_queue.
-- No twin: SQLite has one writer.
select lane.id
from everhook.lane
where lane.environment = :environment
    and lane.queue = :queue
order by lane.id
limit :limit
for update;
