-- Find messages with the beginnings of their payloads, and their history at an endpoint. Indexes: the primary keys.
-- `offset 0` and the order of the key keep the planner from the indexes of the endpoint, which may have millions of
-- rows where the message has a few.
-- Differs: many messages at once.
select
    {message: Message; payload = substr(message.payload, 1, part.bytes)},
    coalesce(open.is_open, false), coalesce(open.is_dead, false), coalesce(tried.has_succeeded, false),
    tried.end_state, tried.class, tried.status, tried.started_at
from unnest(:wanted)
    join everhook.message on message.environment = any (array[wanted.environment])
        and message.application = wanted.application
        and message.id = wanted.id
    cross join (select :payload_bytes::integer as bytes) as part
    left join lateral (
        select bool_or(task.state <> 2) as is_open, bool_or(task.state = 2) as is_dead
        from (
            select task.lane, task.state
            from everhook.task
            where task.environment = message.environment
                and task.subject = message.id
            order by task.id
            offset 0
        ) as task
        where task.lane = :endpoint
    ) as open on true
    left join lateral (
        select
            bool_or(attempt.end_state = 1) as has_succeeded,
            (array_agg(attempt.end_state order by attempt.task desc, attempt.epoch desc))[1] as end_state,
            (array_agg(attempt.class order by attempt.task desc, attempt.epoch desc))[1] as class,
            (array_agg(attempt.status order by attempt.task desc, attempt.epoch desc))[1] as status,
            (array_agg(attempt.started_at order by attempt.task desc, attempt.epoch desc))[1] as started_at
        from (
            select attempt.endpoint, attempt.task, attempt.epoch, attempt.end_state, attempt.class, attempt.status,
                attempt.started_at
            {include attempt_of_message; environment = message.environment; subject = message.id}
        ) as attempt
        where attempt.endpoint = :endpoint
    ) as tried on true
order by message.id;
