-- Deliveries that were given up, those that were due first first. Index: task_dead.
-- No twin: chosen while the writer does other work; `prune_delivery` asks again. The index is named, because nothing but its predicate speaks
-- for it.
select environment, subject, id, 0
from task indexed by task_dead
where state = 2
    and kind = 0
    and due_at < ?1
order by due_at;
