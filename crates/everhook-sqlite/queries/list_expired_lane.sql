-- List lanes of queues without pending or dead tasks. Scans lanes as far as it is read; index: task_dead.
-- Differs: a reader selects them while the writer does other work; `prune_lane` checks again.
select environment, id, queue
from lane
where queue is not null
    and next_due = 9223372036854775807
    and not exists (select 1 from task where task.environment = lane.environment and task.lane = lane.id and task.state = 2);
