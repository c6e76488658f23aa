-- List the jobs that a session holds. Index: task_owner.
select {Task}
from task
where owner = :owner
    and state = 1
    and kind = 1;
