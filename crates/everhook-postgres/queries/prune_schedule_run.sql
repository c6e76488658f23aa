-- Prune runs of schedules, except the latest of each. Index: the primary key.
with old as materialized (
    select run.environment, run.schedule, run.id
    from everhook.schedule
        cross join lateral (
            select schedule_run.id
            from everhook.schedule_run
            where schedule_run.environment = schedule.environment
                and schedule_run.schedule = schedule.id
            order by schedule_run.id desc
            offset :kept
            limit 1
        ) as kept
        cross join lateral (
            select schedule_run.environment, schedule_run.schedule, schedule_run.id
            from everhook.schedule_run
            where schedule_run.environment = schedule.environment
                and schedule_run.schedule = schedule.id
                and schedule_run.id <= kept.id
                and schedule_run.at < :before
            order by schedule_run.id
            limit :limit
        ) as run
    limit :limit
)
delete from everhook.schedule_run
using old
where schedule_run.environment = any (array[old.environment])
    and schedule_run.schedule = old.schedule
    and schedule_run.id = old.id;
