-- Find a message with the beginning of its payload, and its history at an endpoint. Indexes: the primary keys.
-- Differs: one message at a time.
select
    {message: Message; payload = substr(message.payload, 1, part.bytes)},
    exists (
        select 1
        from task
        where task.environment = :environment
            and task.subject = :id
            and +task.lane = :endpoint
            and task.state <> 2
    ),
    exists (
        select 1
        from task
        where task.environment = :environment
            and task.subject = :id
            and +task.lane = :endpoint
            and task.state = 2
    ),
    exists (
        select 1
        from attempt
        where attempt.environment = :environment
            and attempt.subject = :id
            and +attempt.endpoint = :endpoint
            and attempt.end_state = 1
    ),
    last.end_state, last.class, last.status, last.started_at
from message
    cross join (select :payload_bytes as bytes) as part
    left join (
        select end_state, class, status, started_at
        from attempt
        where environment = :environment
            and subject = :id
            and +endpoint = :endpoint
        order by task desc, epoch desc
        limit 1
    ) as last
where message.environment = :environment
    and message.application = :application
    and message.id = :id;
