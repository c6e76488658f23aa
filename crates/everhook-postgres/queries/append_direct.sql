-- Append a batch in one statement that commits by itself. The batch was planned from this node's caches. Indexes: the
-- primary keys of lane_group, lane and dedup. `agreed` checks the plan: unless every version is current and every lane
-- is free, no row is written. Returns the result of the check, and the time. A key that another request holds must undo
-- the whole statement, whose other inserts do not depend on `taken`: `everhook.expect` does this. Keys are taken in key
-- order, as in `append_dedup`.
-- No twin: SQLite reads and writes in one process, so a cached plan would save nothing.
with clock as materialized (
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
),
messages as (
    insert into everhook.message
        (environment, application, id, event_type, event_id, channels, tags, payload, created_at)
    select environment, application, id, event_type, event_id, channels, tags, payload, agreed.now
    from agreed
        cross join unnest(:fresh)
    where agreed.yes
),
tasks as (
    insert into everhook.task
        (environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, owner, cancel, state)
    select environment, subject, id, lane, kind, "trigger", priority, agreed.now, 0, 0, epoch, owner, false, state
    from agreed
        cross join unnest(:begun)
    where agreed.yes
)
select agreed.yes, agreed.now,
    everhook.expect(not agreed.yes or cardinality(:wanted.environment) = (select count(*) from taken)) as undone
from agreed;
