-- Configuration: environments, keys, resources with the narrow tables that hot paths read.

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

-- Applications (0), endpoints (1), event types (2), queues (3), schedules (4). A queue without configuration has no row.
-- No hot statement reads this table: appends and leases read `lane_group` and `lane`, which the same transactions write.
-- With a rowid: specs make its rows long.
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

-- Resources that are not deleted, so that neither a count of endpoints nor a fan-out reads the deleted ones.
create index resource_open on resource (environment, kind, parent, id)
where deleted_at is null;

-- The owners of lanes: an application, or a queue with configuration. It is open (0), paused (1), or stopped because its
-- target wants no more (2). The version begins with the time, so that a queue that is configured anew never has a version
-- of its predecessor.
create table lane_group (
    environment integer not null,
    id blob not null,
    version integer not null, -- raised by every change, also of an application's endpoints
    state integer not null default 0,
    limit_max integer,
    lane_limit_max integer,
    rate_us integer, -- how much time one job takes up
    booked_until integer not null default 0, -- until when the rate is used up
    pushes integer not null default 0,
    primary key (environment, id)
) strict, without rowid;

create index lane_group_pushes on lane_group (environment, id)
where pushes;

-- When schedules run next. What they start is in `resource`.
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
