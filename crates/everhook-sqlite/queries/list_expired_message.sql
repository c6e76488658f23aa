-- Messages in the order in which they were written: whether each can be forgotten (0), is open (1), or young (2). Indexes: the row ids, the
-- primary key of task.
-- No twin: chosen while the writer does other work; `prune_message` asks again.
select environment, application, id,
    case
        when id >= ?1 then 2
        when exists (select 1 from task where task.environment = message.environment and task.subject = message.id) then 1
        else 0
    end
from message
order by rowid;
