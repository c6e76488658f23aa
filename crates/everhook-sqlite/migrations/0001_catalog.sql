-- Configuration: environments, keys, applications, endpoints, event types, queues, schedules.

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

create table application (
    environment integer not null,
    id blob not null,
    uid text,
    name text not null,
    throttle_rate integer,
    metadata text not null,
    created_at integer not null,
    updated_at integer not null,
    revision integer not null,
    deleted_at integer,
    primary key (environment, id)
) strict, without rowid;

create unique index application_uid on application (environment, uid)
where uid is not null and deleted_at is null;

-- With a rowid: headers and keys make its rows long.
create table endpoint (
    environment integer not null,
    application blob not null,
    id blob not null,
    uid text,
    url text not null,
    description text not null,
    state integer not null,
    event_types text,
    channels text,
    headers text not null,
    throttle_rate integer,
    metadata text not null,
    version integer not null,
    keys text not null,
    created_at integer not null,
    updated_at integer not null,
    revision integer not null,
    deleted_at integer,
    primary key (environment, application, id)
) strict;

create unique index endpoint_uid on endpoint (environment, application, uid)
where uid is not null and deleted_at is null;

-- Endpoints that are not deleted, so that neither their count nor a fan-out reads the deleted ones.
create index endpoint_open on endpoint (environment, application, id)
where deleted_at is null;

-- With a rowid: schemas make its rows long.
create table event_type (
    environment integer not null,
    name text not null,
    description text not null,
    archived integer not null,
    deprecated integer not null,
    schemas text,
    feature_flag text,
    group_name text,
    created_at integer not null,
    updated_at integer not null,
    revision integer not null,
    primary key (environment, name)
) strict;

-- A queue that nobody configured has no row. It is open (0), paused (1), or stopped because its target wants no more (2).
create table queue (
    environment integer not null,
    name text not null,
    state integer not null,
    limit_max integer,
    key_limit_max integer,
    rate_us integer, -- how much time one job takes up
    booked_until integer not null default 0,
    target_url text,
    target_keys text,
    updated_at integer not null,
    revision integer not null,
    primary key (environment, name)
) strict, without rowid;

create table schedule (
    environment integer not null,
    name text not null,
    id blob not null,
    spec text not null,
    starts text not null,
    paused integer not null,
    next integer,
    queued integer,
    look_at integer not null,
    last_job blob,
    created_at integer not null,
    updated_at integer not null,
    revision integer not null,
    primary key (environment, name)
) strict, without rowid;

create index schedule_look on schedule (look_at)
where look_at < 9223372036854775807;
