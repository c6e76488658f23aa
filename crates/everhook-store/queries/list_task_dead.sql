-- List dead tasks of a lane, after a task. Index: task_dead.
select subject, id
from everhook.task
where environment = :environment
    and lane = :lane
    and id > :after
    and state = 2
order by id
limit :limit
for update;
