-- List the newest life of each delivery of a message: its open task and its newest attempt. Indexes: the primary keys
-- of task, attempt, lane, message and resource. One statement reads tasks and attempts, so that a delivery that is
-- being settled appears in one state. The head of an ordered lane that holds is the delivery that others wait for. A
-- delivery that is never due waits for another one with its key, which may be dead and block (5). Index: task_order.
-- Differs: one message at a time. Without an application, the lane of the endpoint names it.
with open as materialized (
    select *
    from (
        select task.*, row_number() over (partition by task.lane order by task.id desc) as age
        from task
        where task.environment = :environment
            and task.subject = :message
            and task.kind = 0
            and (:endpoint is null or task.lane = :endpoint)
    )
    where age = 1
),
latest as materialized (
    select *
    from (
        select
            attempt.endpoint, attempt.id, attempt.task, attempt.epoch, attempt.class, attempt.end_state, attempt.status,
            case when attempt.class = 12 then attempt.reply else x'' end as reply, attempt.started_at, attempt.duration_us,
            row_number() over (partition by attempt.endpoint order by attempt.task desc, attempt.epoch desc) as age
        from attempt
        where attempt.environment = :environment
            and attempt.subject = :message
            and attempt.kind = 0
            and +attempt.endpoint is not null
            and (:endpoint is null or +attempt.endpoint = :endpoint)
    )
    where age = 1
),
known (endpoint) as materialized (
    select lane
    from open
    union
    select endpoint
    from latest
)
select
    {message: Message; payload = null}, {endpoint: Endpoint}, endpoint.deleted_at, lane.hold_until,
    {include delivery_hold}
    {open: Task}, open.state, open.owner, coalesce(open.leased_at, open.due_at),
    {latest: LastAttempt}
from known
    left join lane on lane.environment = :environment
        and lane.id = known.endpoint
    cross join message on message.environment = :environment
        and message.application = coalesce(:application, lane.application)
        and message.id = :message
    cross join resource as endpoint on endpoint.environment = :environment
        and endpoint.kind = 1
        and endpoint.parent = message.application
        and endpoint.id = known.endpoint
    left join open on open.lane = known.endpoint
    left join latest on latest.endpoint = known.endpoint;
