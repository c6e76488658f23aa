-- Count the leased tasks of one lane of a limit group, up to the limit. Index: task_limit_group.
-- No twin: PostgreSQL counts queues and lanes in one statement.
select count(*)
from (
    select 1
    from task
    where limit_group = ?1
        and lane = ?2
        and environment = ?4
        and state = 1
    limit ?3
);
