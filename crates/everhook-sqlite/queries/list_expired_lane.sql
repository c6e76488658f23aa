-- Lanes of queues in which nothing waits and nothing is dead. Scans lanes as far as it is read; index: task_dead.
-- Differs: chosen while the writer does other work; `prune_lane` asks again.
select environment, id, queue
from lane
where queue is not null
    and next_due = 9223372036854775807
    and not exists (select 1 from task where task.environment = lane.environment and task.lane = lane.id and task.state = 2);
