-- Lanes of concurrency keys in which nothing waits and nothing is dead. Indexes: lane_queue, task_dead.
-- Differs: a bounded number of them; `lock_lane_idle` and `prune_lane` ask again. That of a queue itself is known by how its id is derived
-- (`everhook_core::job::lane`).
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
        select 1
        from everhook.task
        where task.environment = lane.environment
            and task.lane = lane.id
            and task.state = 2
    )
limit :limit;
