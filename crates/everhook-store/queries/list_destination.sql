-- List the open tasks of a message, and the attempts that ended one. Indexes: the primary keys of task, attempt and
-- resource. One statement reads both, so that a delivery that is being settled appears in one of them.
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
select {endpoint: Endpoint}, endpoint.deleted_at, {trace: DeliveryLife}
from trace
    join everhook.resource as endpoint on endpoint.environment = :environment
        and endpoint.kind = 1
        and endpoint.parent = :application
        and endpoint.id = trace.endpoint;
