-- Find whether a dead delivery comes before the first pending one of a lane. Indexes: task_dead, task_ready.
select exists (
    select 1
    from task as dead
    where dead.environment = :environment
        and dead.lane = :lane
        and dead.state = 2
        and (dead.due_at, dead.id) < (
            select due_at, id
            from task
            where environment = :environment
                and lane = :lane
                and priority = :priority
                and state = 0
            order by due_at, id
            limit 1
        )
);
