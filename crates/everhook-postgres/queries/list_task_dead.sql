-- List dead tasks of a lane, after a task. Index: task_dead.
-- Differs: locks them, so that no redrive makes them pending before this transaction ends.
select subject, id
from everhook.task
where environment = :environment
    and lane = :lane
    and id > :after
    and state = 2
order by id
limit :limit
for update;
