-- Configuration: environments, API keys, resources and the narrow tables that hot paths read; also the store's clock
-- and `everhook.expect`.

-- The only wall clock: microseconds since the Unix epoch. It is read at each call, not at the start of the transaction.
create function everhook.now_us() returns bigint
language sql volatile parallel safe
as $$ select (extract(epoch from pg_catalog.clock_timestamp()) * 1000000)::bigint $$;

-- Undoes the calling statement if a precondition does not hold: it fails with SQLSTATE EH001 and has written nothing.
-- The store recognises this code and retries, or chooses another way.
create function everhook.expect(holds boolean) returns boolean
language plpgsql volatile
as $$
begin
    if holds is not true then
        raise exception 'everhook.expect: what the statement relies on does not hold' using errcode = 'EH001';
    end if;
    return true;
end
$$;

create table everhook.environment (
    id integer generated always as identity primary key,
    org bytea not null unique,
    name text collate "C" not null unique,
    created_at bigint not null
);

create table everhook.api_key (
    id bytea primary key,
    hash bytea not null unique,
    hint text not null,
    environment integer, -- null: an admin key
    created_at bigint not null,
    revoked_at bigint
);

-- Applications (0), endpoints (1), event types (2), queues (3), schedules (4). A queue without configuration has no
-- row.
-- No hot statement reads this table. Appends and leases read `lane_group` and `lane`, which the same transactions
-- write.
create table everhook.resource (
    created_at bigint not null,
    updated_at bigint not null,
    deleted_at bigint,
    revision bigint not null,
    environment integer not null,
    kind smallint not null,
    state smallint not null,
    parent bytea not null, -- the application of an endpoint; else empty
    id bytea not null,
    name text collate "C", -- the uid or name
    spec text not null, -- JSON that the engine reads
    info text not null, -- JSON with everything else
    primary key (environment, kind, parent, id)
);

create unique index resource_name on everhook.resource (environment, kind, parent, name)
where name is not null and deleted_at is null;

-- Resources that are not deleted. With this index neither a count of endpoints nor a fan-out reads deleted ones.
create index resource_open on everhook.resource (environment, kind, parent, id)
where deleted_at is null;

-- The owners of lanes: an application, or a configured queue. The group is open (0), paused (1), or stopped because its
-- target refuses further jobs (2). Versions start at the current time, so that a deleted and reconfigured queue never
-- repeats a version of its predecessor.
create table everhook.lane_group (
    version bigint not null, -- raised by every change, also of an application's endpoints
    booked_until bigint not null default 0, -- the rate is used up until this time
    rate_us bigint, -- the time that one job uses of the rate
    environment integer not null,
    limit_max integer,
    lane_limit_max integer,
    state smallint not null default 0,
    pushes boolean not null default false,
    id bytea not null,
    primary key (environment, id)
) with (fillfactor = 50);

create index lane_group_pushes on everhook.lane_group (environment, id)
where pushes;

-- The next times of schedules. The jobs and messages that they start are in `resource`.
create table everhook.schedule (
    next bigint,
    queued bigint,
    look_at bigint not null,
    environment integer not null,
    id bytea not null,
    last_job bytea,
    primary key (environment, id)
) with (fillfactor = 50);

create index schedule_look on everhook.schedule (look_at)
where look_at < 9223372036854775807;
