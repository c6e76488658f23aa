-- Where a message stands with each endpoint: its open tasks and the attempts that ended one, in one statement, so that a delivery
-- that is just being settled is never nowhere. Indexes: the primary keys of task, attempt and endpoint.
with trace (endpoint, task, epoch, state, due_at, end_state) as (
    select lane, id, epoch, state, due_at, null
    from task
    where environment = ?1
        and subject = ?3
    union all
    select endpoint, task, epoch, null, null, end_state
    from attempt
    where environment = ?1
        and subject = ?3
        and end_state <> 0
)
select
    endpoint.id, endpoint.application, endpoint.uid, endpoint.url, endpoint.description, endpoint.state, endpoint.event_types,
    endpoint.channels, endpoint.headers, endpoint.throttle_rate, endpoint.metadata, endpoint.version, endpoint.keys,
    endpoint.created_at, endpoint.updated_at, endpoint.revision, endpoint.deleted_at, trace.task, trace.epoch, trace.state,
    trace.due_at, trace.end_state
from trace
    join endpoint on endpoint.environment = ?1
        and endpoint.application = ?2
        and endpoint.id = trace.endpoint;
