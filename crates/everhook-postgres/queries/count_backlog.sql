-- Count what waits, up to a bound, and tell since when the lane that waits longest is ready. Indexes: task_ready, task_dead, lane_ready.
-- Leased tasks are not counted: every delivery leaves a dead entry in task_owner, and an old snapshot would make this walk them all.
select
    (select count(*) from (select 1 from everhook.task where task.state = 0 limit $1) as pending),
    (select count(*) from (select 1 from everhook.task where task.state = 2 limit $1) as dead),
    coalesce(
        (
            select everhook.now_us() - lane.ready_at
            from everhook.lane
            where lane.ready_at < 9223372036854775807
            order by lane.ready_at
            limit 1
        ),
        0
    );
