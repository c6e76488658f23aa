-- The ids of leased jobs between two ids. Index: task_owner, which has what all sessions hold, and no more.
-- No twin: PostgreSQL finds them among all open tasks.
-- The index is named, because nothing but its predicate speaks for it; the rest of the filter is asked of `find_job`.
select subject
from task indexed by task_owner
where state = 1
    and kind = 1
    and +environment = ?1
    and +subject > ?2
    and +subject < ?3
order by subject asc
;
