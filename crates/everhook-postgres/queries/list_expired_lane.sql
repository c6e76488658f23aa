-- List lanes of concurrency keys without pending or dead tasks. Indexes: lane_queue, task_dead. The lane of the queue
-- itself is excluded: its id is derived from the queue's name (`everhook_core::job::lane`).
-- Differs: a bounded number of lanes; `lock_lane_idle` and `prune_lane` check them again.
select lane.environment, lane.id, lane.queue
from everhook.lane
where lane.queue is not null
    and lane.next_due = 9223372036854775807
    and lane.id <> substring(
        sha256(
            int8send(5) || 'queue'::bytea
            || int8send(4) || int4send(lane.environment)
            || int8send(octet_length(lane.queue)) || convert_to(lane.queue, 'UTF8')
        ),
        1, 20
    )
    and not exists (
        {include task_of_lane; environment = lane.environment; lane = lane.id; state = 2}
    )
limit :limit;
