-- List the kinds of the jobs of a queue that have been due longest. Indexes: lane_ready, task_ready, the primary key of
-- job. Only the lanes that have been ready longest are read.
with clock as materialized (
    select everhook.now_us() as now
),
due as materialized (
    select task.environment, task.subject
    from (
            {include ready_lane}
            limit :lanes_max
        ) as lane
        cross join unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) as level (priority)
        cross join lateral (
            select task.environment, task.subject, task.due_at
            {include due_task}
            order by task.due_at
            limit :jobs_max
        ) as task
    order by task.due_at
    limit :jobs_max
)
select distinct job.kind
from due
    join everhook.job on job.environment = any (array[due.environment])
        and job.id = due.subject
order by job.kind;
