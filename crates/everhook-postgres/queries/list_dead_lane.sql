-- List the lanes with dead tasks, after a lane. Index: task_dead, with one look for each lane, however many dead tasks
-- it has.
with recursive found (lane, n) as (
    select first.lane, 1
    from (
        select task.lane
        from everhook.task
        where task.environment = :environment
            and task.lane > :after
            and task.state = 2
        order by task.lane
        limit 1
    ) as first
    union all
    select next.lane, found.n + 1
    from found
        cross join lateral (
            select task.lane
            from everhook.task
            where task.environment = :environment
                and task.lane > found.lane
                and task.state = 2
            order by task.lane
            limit 1
        ) as next
    where found.n < :limit
)
select found.lane
from found
order by found.lane;
