-- Remove lanes of concurrency keys in which nothing is, and that `lock_lane_idle` has locked. Indexes: the primary key of lane, task_ready,
-- task_dead, task_owner.
-- Differs: a statement of its own, because it needs a snapshot that is younger than the locks: a task that someone added before they were had is
-- seen, and whoever comes later finds no lane and makes it again.
with leased as materialized (
    select distinct task.environment, task.lane
    from everhook.task
    where task.state = 1
        and task.owner is not null
        and task.kind = 1
)
delete from everhook.lane
using unnest(:idle)
where lane.environment = any (array[idle.environment])
    and lane.id = idle.id
    and (
        select 1
        from everhook.task
        where task.environment = idle.environment
            and task.lane = idle.id
            and task.state = 0
        limit 1
    ) is null
    and (
        select 1
        from everhook.task
        where task.environment = idle.environment
            and task.lane = idle.id
            and task.state = 2
        limit 1
    ) is null
    and (
        select 1
        from leased
        where leased.environment = idle.environment
            and leased.lane = idle.id
        limit 1
    ) is null;
