-- Find the due time of the next task of lanes whose due tasks are all leased. Index: task_ready.
-- No twin: SQLite writes it into the lane at once. Here every version of a lane row costs its later readers, see
-- `scan_cursor`.
select wanted.n, first.due_at
from unnest(:wanted, n)
    cross join lateral (
        {include first_due; from = task.due_at > :after}
    ) as first
where first.due_at is not null;
