-- Configuration: environments, API keys, resources and the narrow tables that hot paths read.

create table environment (
    id integer primary key,
    org blob not null unique,
    name text not null unique,
    created_at integer not null
) strict;

create table api_key (
    id blob primary key,
    hash blob not null unique,
    hint text not null,
    environment integer, -- null: an admin key
    created_at integer not null,
    revoked_at integer
) strict, without rowid;

-- Applications (0), endpoints (1), event types (2), queues (3), schedules (4). A queue without configuration has no
-- row.
-- No hot statement reads this table. Appends and leases read `lane_group` and `lane`, which the same transactions
-- write.
-- The table has a rowid, because specs make its rows long.
create table resource (
    environment integer not null,
    kind integer not null,
    parent blob not null, -- the application of an endpoint; else empty
    id blob not null,
    name text, -- the uid or name
    state integer not null,
    revision integer not null,
    created_at integer not null,
    updated_at integer not null,
    deleted_at integer,
    spec text not null, -- JSON that the engine reads
    info text not null, -- JSON with everything else
    primary key (environment, kind, parent, id)
) strict;

create unique index resource_name on resource (environment, kind, parent, name)
where name is not null and deleted_at is null;

-- Resources that are not deleted. With this index neither a count of endpoints nor a fan-out reads deleted ones.
create index resource_open on resource (environment, kind, parent, id)
where deleted_at is null;

-- The owners of lanes: an application, or a configured queue. The group is open (0), paused (1), or stopped because its
-- target refuses further jobs (2). Versions start at the current time, so that a deleted and reconfigured queue never
-- repeats a version of its predecessor.
create table lane_group (
    environment integer not null,
    id blob not null,
    version integer not null, -- raised by every change, also of an application's endpoints
    state integer not null default 0,
    limit_max integer,
    lane_limit_max integer,
    rate_us integer, -- the time that one job uses of the rate
    booked_until integer not null default 0, -- the rate is used up until this time
    pushes integer not null default 0,
    primary key (environment, id)
) strict, without rowid;

create index lane_group_pushes on lane_group (environment, id)
where pushes;

-- The next times of schedules. The jobs and messages that they start are in `resource`.
create table schedule (
    environment integer not null,
    id blob not null,
    next integer,
    queued integer,
    look_at integer not null,
    last_job blob,
    primary key (environment, id)
) strict, without rowid;

create index schedule_look on schedule (look_at)
where look_at < 9223372036854775807;
