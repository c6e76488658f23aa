-- List messages in the order of writing, each with a verdict. Indexes: the row ids, the primary key of task. A message
-- can be pruned (0), has an open delivery (1), or is too young (2).
-- No twin: a reader selects them while the writer does other work; `prune_message` checks again.
select environment, application, id,
    case
        when id >= ?1 then 2
        when exists (select 1 from task where task.environment = message.environment and task.subject = message.id) then 1
        else 0
    end
from message
order by rowid;
