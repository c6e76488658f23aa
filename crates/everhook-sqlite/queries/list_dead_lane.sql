-- List the lanes with dead tasks, after a lane. Index: task_dead, with one look for each lane, however many dead tasks
-- it has.
with recursive found (lane, n) as (
    select
        (
            select task.lane
            from task
            where task.environment = :environment
                and task.lane > :after
                and task.state = 2
            order by task.lane
            limit 1
        ),
        1
    union all
    select
        (
            select task.lane
            from task
            where task.environment = :environment
                and task.lane > found.lane
                and task.state = 2
            order by task.lane
            limit 1
        ),
        found.n + 1
    from found
    where found.lane is not null
        and found.n < :limit
)
select found.lane
from found
where found.lane is not null
order by found.lane;
