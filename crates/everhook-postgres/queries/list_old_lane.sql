-- Lanes of queues in which nothing waits and nothing is dead, but for some that are known. Indexes: lane_queue, task_dead.
-- Differs: a bounded number of them; `lock_lane_idle` and `prune_lane` ask again.
select lane.environment, lane.id, lane.queue
from everhook.lane
where lane.queue is not null
    and lane.next_due = 9223372036854775807
    and lane.id <> all ($1::bytea[])
    and not exists (
        select 1
        from everhook.task
        where task.environment = lane.environment
            and task.lane = lane.id
            and task.state = 2
    )
limit $2;
