-- The delivery that one with the same key waits for. Index: task_order.
from everhook.task as ahead
where ahead.environment = open.environment
    and ahead.lane = open.lane
    and ahead.order_key = open.order_key
    and ahead.due_at < 9223372036854775807
    and (ahead.state <> 2 or (ahead.order_blocks and ahead.order_position < open.order_position))
order by ahead.order_position
limit 1
