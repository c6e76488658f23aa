-- Append a batch in one statement that commits by itself. The batch was planned from this node's caches. Indexes: the
-- primary keys of lane_group, lane and dedup. `agreed` checks the plan: unless every version is current and every lane
-- is free, no row is written. Returns the result of the check, and the time. A key that another request holds must undo
-- the whole statement, whose other inserts do not depend on `taken`: `everhook.expect` does this. Keys are taken in key
-- order, as in `append_dedup`.
-- `booked` takes the permits of rate limits (`core::policy::rate::Booking`). It locks the lanes in key order and after
-- the keys, like `append_once`. The lock may wait for a lease that uses the permits. The statement is then undone, too.
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
paced as materialized (
    select lane.environment, lane.id, lane.state, lane.waiting, agreed.now, booking.before_us, booking.span_us,
        greatest(lane.hold_until, agreed.now - booking.unused_us) as held_until
    from agreed
        cross join unnest(:booking)
        join everhook.lane on lane.environment = any (array[booking.environment])
            and lane.id = booking.id
    where agreed.yes
        and (select count(*) from taken) >= 0
    order by booking.environment, booking.id
    for no key update of lane
),
booked as (
    update everhook.lane
    set hold_until = paced.held_until + paced.span_us,
        hold_kind = 1
    from paced
    where lane.environment = any (array[paced.environment])
        and lane.id = paced.id
        and paced.state = 0
        and not paced.waiting
        and paced.held_until + paced.before_us <= paced.now
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
    everhook.expect(
        not agreed.yes
        or (
            cardinality(:wanted.environment) = (select count(*) from taken)
            and cardinality(:booking.environment) = (select count(*) from booked)
        )
    ) as undone
from agreed;
