-- Make the first waiting delivery of each key due, unless another one of the key is open, or an earlier one is dead and
-- blocks. Indexes: task_order, the primary keys. The caller has locked the lanes in an earlier statement, so
-- that an append does not wait behind a delivery that is just ending.
-- Differs: many keys at once; also lowers the due times of the lanes.
with clock as materialized (
    select everhook.now_us() as now
),
first as materialized (
    select waiting.environment, waiting.subject, waiting.id, waiting.lane
    from unnest(:wanted)
        cross join lateral (
            select task.environment, task.subject, task.id, task.lane, task.order_position
            from everhook.task
            where task.environment = wanted.environment
                and task.lane = wanted.lane
                and task.order_key = wanted.order_key
                and task.state = 0
                and task.due_at = 9223372036854775807
            order by task.order_position
            limit 1
        ) as waiting
    where not exists (
            select
            {include delivery_ahead; environment = wanted.environment; lane = wanted.lane; key = wanted.order_key;
                position = waiting.order_position}
        )
),
promoted as (
    update everhook.task
    set due_at = clock.now
    from clock
        cross join first
    where task.environment = any (array[first.environment])
        and task.subject = first.subject
        and task.id = first.id
)
update everhook.lane
set next_due = least(lane.next_due, clock.now),
    floor = least(lane.floor, clock.now)
from clock
    cross join first
where lane.environment = any (array[first.environment])
    and lane.id = first.lane
    and (lane.next_due > clock.now or lane.floor > clock.now);
