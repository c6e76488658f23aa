-- The tasks of a lane in a state. Indexes: task_ready, task_dead.
select 1
from everhook.task
where task.environment = {environment}
    and task.lane = {lane}
    and task.state = {state}
