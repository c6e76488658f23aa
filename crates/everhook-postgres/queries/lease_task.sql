-- Lease due tasks of locked lanes, in the order of the lanes. Indexes: task_ready to choose, the primary key to write.
-- Differs: many lanes at once. No other check than `owner is null` is needed, because only the holder of a lane's lock takes its
-- tasks; one on `state` would offer the planner an index to walk from end to end.
with chosen as materialized (
    select task.environment, task.subject, task.id
    from unnest(:lane)
        cross join lateral (
            select task.environment, task.subject, task.id
            from everhook.task
            where task.environment = lane.environment
                and task.lane = lane.id
                and task.priority = :priority
                and task.due_at >= lane.floor
                and task.due_at <= lane.due_until
                and task.state = 0
            order by task.due_at, task.id
            limit lane.capacity
        ) as task
    limit :limit
)
update everhook.task
set state = 1,
    owner = :owner,
    epoch = task.epoch + 1,
    leased_at = (select everhook.now_us())
from chosen
where task.environment = any (array[chosen.environment])
    and task.subject = chosen.subject
    and task.id = chosen.id
    and task.owner is null
returning {task: Task};
