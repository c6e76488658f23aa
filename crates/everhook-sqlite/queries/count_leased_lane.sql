-- Count the leased tasks of one lane of a limit group, up to the limit. Index: task_limit_group.
-- No twin: PostgreSQL counts queues and lanes in one statement.
select count(*)
from (
    select 1
    from task
    where limit_group = :group
        and lane = :lane
        and environment = :environment
        and state = 1
    limit :limit
);
