-- Delete lanes that `lock_lane_idle` has locked, if they have no task. Indexes: the primary key of lane, task_ready,
-- task_dead, task_owner.
-- Differs: a separate statement, because its snapshot must be newer than the locks. It sees a task that was added
-- before them. A transaction that adds a task later finds no lane, and creates it again.
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
        {include task_of_lane; environment = idle.environment; lane = idle.id; state = 0}
        limit 1
    ) is null
    and (
        {include task_of_lane; environment = idle.environment; lane = idle.id; state = 2}
        limit 1
    ) is null
    and (
        select 1
        from leased
        where leased.environment = idle.environment
            and leased.lane = idle.id
        limit 1
    ) is null;
