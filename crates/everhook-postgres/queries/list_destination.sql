-- Where a message stands with each endpoint: its open tasks and the attempts that ended one, in one statement, so that a delivery
-- that is just being settled is never nowhere. Indexes: the primary keys of task, attempt and resource.
with trace (endpoint, task, epoch, state, due_at, end_state) as (
    select lane, id, epoch, state, due_at, null::smallint
    from everhook.task
    where environment = :environment
        and subject = :message
    union all
    select endpoint, task, epoch, null, null, end_state
    from everhook.attempt
    where kind = 0
        and environment = :environment
        and subject = :message
        and end_state <> 0
)
select
    {endpoint: Endpoint}, endpoint.deleted_at, trace.task, trace.epoch, trace.state,
    trace.due_at, trace.end_state
from trace
    join everhook.resource as endpoint on endpoint.environment = :environment
        and endpoint.kind = 1
        and endpoint.parent = :application
        and endpoint.id = trace.endpoint;
