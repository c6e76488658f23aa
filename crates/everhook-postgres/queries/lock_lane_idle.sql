-- Lock lanes of queues that wait for nothing and have no dead jobs, against everyone who might add to them. Indexes: lane_queue, task_dead.
-- No twin: SQLite has one writer.
select lane.environment, lane.id
from everhook.lane
where lane.queue is not null
    and lane.next_due = 9223372036854775807
    and not exists (
        select 1
        from everhook.task
        where task.environment = lane.environment
            and task.lane = lane.id
            and task.state = 2
    )
limit $1
for update skip locked;
