-- The deliveries that one with the same key waits for. Index: task_order.
from everhook.task as ahead
where ahead.environment = {environment}
    and ahead.lane = {lane}
    and ahead.order_key = {key}
    and ahead.due_at < 9223372036854775807
    and (ahead.state <> 2 or (ahead.order_blocks and ahead.order_position < {position}))
