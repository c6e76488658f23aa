-- Find whether a dead delivery comes before the first pending one of a lane. Indexes: task_dead, task_ready.
select exists (
    select 1
    from task as dead
    where dead.environment = ?1
        and dead.lane = ?2
        and dead.state = 2
        and (dead.due_at, dead.id) < (
            select due_at, id
            from task
            where environment = ?1
                and lane = ?2
                and priority = ?3
                and state = 0
            order by due_at, id
            limit 1
        )
);
