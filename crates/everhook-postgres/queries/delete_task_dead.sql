-- Delete the dead deliveries of messages to an endpoint, whose place new deliveries take. Index: the primary key.
-- `offset 0` keeps the planner from the index of the endpoint's dead tasks.
-- Differs: many messages at once.
with dead as materialized (
    select task.environment, task.subject, task.id
    from unnest(:wanted)
        cross join lateral (
            select task.environment, task.subject, task.id, task.lane, task.state
            from everhook.task
            where task.environment = any (array[wanted.environment])
                and task.subject = wanted.id
            order by task.id
            offset 0
        ) as task
    where task.lane = :lane
        and task.state = 2
)
delete from everhook.task
using dead
where task.environment = any (array[dead.environment])
    and task.subject = dead.subject
    and task.id = dead.id
returning task.order_key;
