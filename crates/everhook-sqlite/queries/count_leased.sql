-- Count the leased tasks of a queue with a limit, up to that. Index: task_gate.
select count(*)
from (
    select 1
    from task
    where gate = ?1
        and state = 1
    limit ?2
);
