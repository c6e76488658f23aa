-- Find messages without their payloads, and their history at an endpoint. Indexes: the primary keys. `offset 0` keeps the
-- planner from the indexes of the endpoint, which may have millions of rows where the message has a few.
-- Differs: many messages at once.
select
    {message: Message; payload = substr(message.payload, 1, 0)},
    coalesce(open.is_open, false), coalesce(open.is_dead, false), coalesce(ended.has_succeeded, false),
    last.end_state, last.status, last.started_at
from everhook.message
    left join lateral (
        select bool_or(task.state <> 2) as is_open, bool_or(task.state = 2) as is_dead
        from (
            select task.lane, task.state
            from everhook.task
            where task.environment = message.environment
                and task.subject = message.id
            offset 0
        ) as task
        where task.lane = :endpoint
    ) as open on true
    left join lateral (
        select bool_or(attempt.end_state = 1) as has_succeeded
        from (
            select attempt.endpoint, attempt.end_state
            from everhook.attempt
            where attempt.kind = 0
                and attempt.environment = message.environment
                and attempt.subject = message.id
            offset 0
        ) as attempt
        where attempt.endpoint = :endpoint
    ) as ended on true
    left join lateral (
        select attempt.end_state, attempt.status, attempt.started_at
        from (
            select attempt.endpoint, attempt.task, attempt.epoch, attempt.end_state, attempt.status, attempt.started_at
            from everhook.attempt
            where attempt.kind = 0
                and attempt.environment = message.environment
                and attempt.subject = message.id
            offset 0
        ) as attempt
        where attempt.endpoint = :endpoint
        order by attempt.task desc, attempt.epoch desc
        limit 1
    ) as last on true
where message.environment = :environment
    and message.application = :application
    and message.id = any (:ids)
order by message.id;
