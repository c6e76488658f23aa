-- List jobs in the order of writing, each with a verdict. Indexes: the row ids, the primary keys of task and attempt. A
-- job can be pruned (0), is open, dead or ended recently (1), or is too young (2).
-- No twin: a reader selects them while the writer does other work; `prune_job` checks again.
select job.environment, job.id,
    case
        when job.created_at >= :before then 2
        when exists (select 1 from task where task.environment = job.environment and task.subject = job.id) then 1
        when coalesce(last.end_state, 1) not in (1, 3) then 1
        when coalesce(last.started_at + last.duration_us, job.created_at) >= :before then 1
        else 0
    end
from job
    {include last_attempt}
order by job.rowid;
