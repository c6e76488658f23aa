-- List the ids of leased jobs in a range. Index: task_owner, which contains only leased tasks. The index is named,
-- because the planner does not choose a partial index by its predicate alone. `find_job` checks the rest of the filter.
-- No twin: PostgreSQL finds them among all open tasks.
select subject
from task indexed by task_owner
where state = 1
    and kind = 1
    and +environment = :environment
    and +subject > :above
    and +subject < :below
order by subject :order;
