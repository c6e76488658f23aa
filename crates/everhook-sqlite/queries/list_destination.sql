-- Where a message stands with each endpoint: its open tasks and the attempts that ended one, in one statement, so that a delivery
-- that is just being settled is never nowhere. Indexes: the primary keys of task, attempt and resource.
with trace (endpoint, task, epoch, state, due_at, end_state) as (
    select lane, id, epoch, state, due_at, null
    from task
    where environment = :environment
        and subject = :message
    union all
    select endpoint, task, epoch, null, null, end_state
    from attempt
    where environment = :environment
        and subject = :message
        and end_state <> 0
)
select {endpoint: Endpoint}, endpoint.deleted_at, {trace: TraceRow}
from trace
    join resource as endpoint on endpoint.environment = :environment
        and endpoint.kind = 1
        and endpoint.parent = :application
        and endpoint.id = trace.endpoint;
