-- List the newest life of each delivery of messages: its open task and its newest attempt. Indexes: the primary keys of
-- task, attempt, lane, message and resource. One statement reads tasks and attempts, so that a delivery that is being
-- settled appears in one state. The head of an ordered lane that holds is the delivery that others wait for.
-- A delivery that is never due waits for another one with its key, which may be dead and block (5). Index: task_order.
-- Differs: many messages at once. Without an application, the lane of the endpoint names it.
with open as materialized (
    select distinct on (task.subject, task.lane) task.*
    from unnest(:wanted)
        join everhook.task on task.environment = any (array[wanted.environment])
            and task.subject = wanted.subject
    where task.kind = 0
        and (:endpoint::bytea is null or task.lane = :endpoint)
    order by task.subject, task.lane, task.id desc
),
latest as materialized (
    select distinct on (attempt.subject, attempt.endpoint)
        attempt.subject, attempt.endpoint, attempt.id, attempt.task, attempt.epoch, attempt.class, attempt.end_state, attempt.status,
        case when attempt.class = 12 then attempt.reply else '' end as reply, attempt.started_at, attempt.duration_us
    from unnest(:wanted)
        join everhook.attempt on attempt.kind = 0
            and attempt.environment = any (array[wanted.environment])
            and attempt.subject = wanted.subject
    where attempt.endpoint is not null
        and (:endpoint::bytea is null or attempt.endpoint = :endpoint)
    order by attempt.subject, attempt.endpoint, attempt.task desc, attempt.epoch desc
),
known (subject, endpoint) as materialized (
    select subject, lane
    from open
    union
    select subject, endpoint
    from latest
)
select
    {message: Message; payload = null::bytea}, {endpoint: Endpoint}, endpoint.deleted_at, lane.hold_until,
    {include delivery_hold}
    {open: Task}, open.state, open.owner, coalesce(open.leased_at, open.due_at),
    {latest: LastAttempt}
from known
    left join everhook.lane on lane.environment = :environment
        and lane.id = known.endpoint
    join everhook.message on message.environment = :environment
        and message.application = coalesce(:application, lane.application)
        and message.id = known.subject
    join everhook.resource as endpoint on endpoint.environment = :environment
        and endpoint.kind = 1
        and endpoint.parent = message.application
        and endpoint.id = known.endpoint
    left join open on open.subject = known.subject
        and open.lane = known.endpoint
    left join latest on latest.subject = known.subject
        and latest.endpoint = known.endpoint;
