-- The kind of hold of a delivery, the breaker of its lane, and the message of the delivery that it waits for.
case
    when open.order_key is not null and open.due_at = 9223372036854775807 then coalesce(
        (
            select case ahead.state when 2 then 5 else 3 end
            {include delivery_ahead; environment = open.environment; lane = open.lane; key = open.order_key;
                position = open.order_position}
            order by ahead.order_position
            limit 1
        ),
        3
    )
    else lane.hold_kind
end,
lane.breaker,
case
    when open.order_key is not null and open.due_at = 9223372036854775807 then (
        select ahead.subject
        {include delivery_ahead; environment = open.environment; lane = open.lane; key = open.order_key;
            position = open.order_position}
        order by ahead.order_position
        limit 1
    )
    when lane.hold_kind between 3 and 5 then coalesce(
        (
            select ahead.subject
            from everhook.task as ahead
            where ahead.limit_group = lane.id
                and ahead.lane = lane.id
                and ahead.environment = lane.environment
                and ahead.state = 1
            limit 1
        ),
        (
            select ahead.subject
            from everhook.task as ahead
            where lane.hold_kind = 5
                and ahead.environment = lane.environment
                and ahead.lane = lane.id
                and ahead.state = 2
            order by ahead.due_at, ahead.id
            limit 1
        ),
        (
            select ahead.subject
            from everhook.task as ahead
            where ahead.environment = lane.environment
                and ahead.lane = lane.id
                and ahead.priority = 5
                and ahead.state = 0
            order by ahead.due_at, ahead.id
            limit 1
        )
    )
end,
