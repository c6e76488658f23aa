-- List the due times and kinds of a queue's jobs, longest due first. Indexes: lane_ready, task_ready, the primary key
-- of job.
-- Differs: also returns the oldest due time; reads the first jobs of each lane and priority, which the index has in
-- order.
with priority (number) as (
    values (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)
), due as materialized (
    select task.environment, task.subject, task.due_at
    from lane
        cross join priority
        cross join task on (task.environment, task.subject, task.id) in (
            select first.environment, first.subject, first.id
            from task as first
            where first.environment = lane.environment
                and first.lane = lane.id
                and first.priority = priority.number
                and first.due_at <= :now
                and first.state = 0
            order by first.due_at
            limit :jobs_max
        )
    where {include ready_lane}
    order by task.due_at
    limit :jobs_max
)
select due.due_at, job.kind
from due
    left join job on job.environment = due.environment and job.id = due.subject
order by due.due_at;
