-- Make the first waiting delivery of a key due, unless another one of the key is open, or an earlier one is dead and
-- blocks. Indexes: task_order, the primary key.
-- Differs: one key at a time, without locks, because there is one writer. The caller lowers the due time of the lane.
update task
set due_at = :now
where (environment, subject, id) = (
        select waiting.environment, waiting.subject, waiting.id
        from (
            select environment, subject, id, order_position
            from task
            where environment = :environment
                and lane = :lane
                and order_key = :key
                and state = 0
                and due_at = 9223372036854775807
            order by order_position
            limit 1
        ) as waiting
        where not exists (
                select 1
                {include delivery_ahead; environment = :environment; lane = :lane; key = :key;
                    position = waiting.order_position}
            )
    );
