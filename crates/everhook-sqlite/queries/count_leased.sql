-- Count the leased tasks of a limited queue, up to the limit. Index: task_limit_group.
select count(*)
from (
    select 1
    from task
    where limit_group = :group
        and state = 1
    limit :limit
);
