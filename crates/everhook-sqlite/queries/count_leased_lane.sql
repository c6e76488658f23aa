-- Count the leased tasks of one concurrency key of a queue with a limit, up to that. Index: task_limit_group.
-- No twin: PostgreSQL counts those of queues and of keys at once.
select count(*)
from (
    select 1
    from task
    where limit_group = ?1
        and lane = ?2
        and state = 1
    limit ?3
);
