-- Append a batch in one statement that commits by itself: it was planned from what this node remembers, and nothing is written unless
-- that still holds. Answers whether it did, and the time. Indexes: the primary keys of application, lane and dedup.
-- No twin: SQLite reads and writes in one process, so that a guess would save nothing.
-- A key that is someone else's must undo the statement: the division by zero does. Keys come in key order, as in `append_dedup`.
with clock as materialized (
    select everhook.now_us() as now
),
agreed as materialized (
    select clock.now,
        cardinality($1::int[]) = (
            select count(*)
            from unnest($1::int[], $2::bytea[], $3::bigint[]) as wanted (environment, id, revision)
                join everhook.application on application.environment = any (array[wanted.environment])
                    and application.id = wanted.id
            where application.revision = wanted.revision
                and application.deleted_at is null
        )
        and cardinality($4::int[]) = (
            select count(*)
            from unnest($4::int[], $5::bytea[]) as wanted (environment, id)
                join everhook.lane on lane.environment = any (array[wanted.environment])
                    and lane.id = wanted.id
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
        cross join unnest($6::int[], $7::smallint[], $8::bytea[], $9::bytea[], $10::bytea[], $11::bigint[])
            as wanted (environment, scope, hash, object, body, kept_us)
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
        cross join unnest($12::int[], $13::bytea[], $14::bytea[], $15::text[], $16::text[], $17::text[], $18::text[], $19::bytea[])
            as fresh (environment, application, id, event_type, event_id, channels, tags, payload)
    where agreed.yes
),
tasks as (
    insert into everhook.task
        (environment, subject, id, lane, kind, "trigger", priority, due_at, tries, crashes, epoch, owner, cancel, state)
    select environment, subject, id, lane, kind, "trigger", priority, agreed.now, 0, 0, epoch, owner, false, state
    from agreed
        cross join unnest(
            $20::int[], $21::bytea[], $22::bytea[], $23::bytea[], $24::smallint[], $25::smallint[], $26::smallint[], $27::int[],
            $28::bytea[], $29::smallint[]
        ) as fresh (environment, subject, id, lane, kind, "trigger", priority, epoch, owner, state)
    where agreed.yes
)
select agreed.yes, agreed.now, 1 / (not agreed.yes or cardinality($6::int[]) = (select count(*) from taken))::int as undone
from agreed;
