-- Check the plan of a batch against lane groups and lanes, and take its keys, in key order as in `append_dedup`.
-- Indexes: the primary keys of lane_group, lane and dedup.
-- No twin: SQLite reads and writes in one process, so a cached plan would save nothing.
clock as materialized (
    select everhook.now_us() as now
),
agreed as materialized (
    select clock.now,
        cardinality(:known.environment) = (
            select count(*)
            from unnest(:known)
                join everhook.lane_group on lane_group.environment = any (array[known.environment])
                    and lane_group.id = known.id
            where lane_group.version = known.version
        )
        and cardinality(:free.environment) = (
            select count(*)
            from unnest(:free)
                join everhook.lane on lane.environment = any (array[free.environment])
                    and lane.id = free.id
            where lane.state = 0
                and not lane.waiting
                and lane.hold_until <= clock.now
        ) as yes
    from clock
),
taken as (
    insert into everhook.dedup as held (environment, scope, hash, object, body, expires_at)
    select wanted.environment, wanted.scope, wanted.hash, wanted.object, wanted.body, agreed.now + wanted.kept_us
    from agreed
        cross join unnest(:wanted)
    where agreed.yes
    on conflict (environment, scope, hash) do update
    set object = excluded.object,
        body = excluded.body,
        expires_at = excluded.expires_at
    where held.expires_at <= (select now from clock)
    returning 1
)
