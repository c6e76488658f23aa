-- Lease due jobs of locked lanes, queue by queue, in the order of the lanes; within a lane the lower priority first. Indexes: task_ready to
-- choose, the primary keys to write and to read the records.
-- Differs: many lanes at once, and the records with them. As in `lease_task`, `owner is null` is all that has to be checked; the rows are
-- found again by their place, which is cheaper than by key, and one that someone has moved meanwhile is left for the next look.
with chosen as materialized (
    select task.environment, task.subject, task.place, task.gate
    from unnest($1::int[], $2::bigint[]) as queue (n, room)
        cross join lateral (
            select task.environment, task.subject, task.place, lane.gate
            from unnest($3::int[], $4::bytea[], $5::int[], $6::bigint[], $7::bytea[]) as lane (environment, id, queue, room, gate)
                cross join lateral (
                    select task.environment, task.subject, task.place
                    from unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) as level (priority)
                        cross join lateral (
                            select task.environment, task.subject, task.ctid as place
                            from everhook.task
                            where task.environment = lane.environment
                                and task.lane = lane.id
                                and task.priority = level.priority
                                and task.due_at <= $8
                                and task.state = 0
                            order by task.due_at, task.id
                            limit lane.room
                        ) as task
                    limit lane.room
                ) as task
            where lane.queue = queue.n
            limit queue.room
        ) as task
    limit $9
)
update everhook.task
set state = 1,
    owner = $10,
    epoch = task.epoch + 1,
    gate = chosen.gate,
    deadline = case when $11 then $8 + task.timeout_us end
from chosen
    left join everhook.job on job.environment = any (array[chosen.environment])
        and job.id = chosen.subject
where task.ctid = chosen.place
    and task.owner is null
    and task.due_at <= $8
returning
    task.environment, task.subject, task.id, task.lane, task.kind, task."trigger", task.priority, task.due_at, task.tries, task.crashes,
    task.epoch, task.cancel, task.batch, job.queue, job.kind, job.name, job.payload, job.priority, job.concurrency_key, job.tags, job.batch, job.rest;
