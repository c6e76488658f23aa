-- Count the leased tasks of one concurrency key of a limited queue, up to the limit. Index: task_limit_group.
-- No twin: PostgreSQL counts queues and keys in one statement.
select count(*)
from (
    select 1
    from task
    where limit_group = ?1
        and lane = ?2
        and state = 1
    limit ?3
);
