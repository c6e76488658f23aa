-- The due tasks of a lane with a priority. Index: task_ready.
-- No twin: SQLite joins the lanes to their tasks at once.
from everhook.task
where task.environment = lane.environment
    and task.lane = lane.id
    and task.priority = level.priority
    and task.due_at <= (select now from clock)
    and task.state = 0
