-- Lock lanes of queues that wait for nothing, against everyone who might add to them. Index: lane_queue.
-- No twin: SQLite has one writer.
select lane.environment, lane.id
from everhook.lane
where lane.queue is not null
    and lane.next_due = 9223372036854775807
limit $1
for update skip locked;
