-- Configuration: environments, keys, applications, endpoints, event types, queues, schedules; the clock and the check of statements.

-- The only wall clock: microseconds since the Unix epoch, read when it is called and not when the transaction began.
create function everhook.now_us() returns bigint
language sql volatile parallel safe
as $$ select (extract(epoch from pg_catalog.clock_timestamp()) * 1000000)::bigint $$;

-- How a statement undoes itself: what it relies on has to hold, or it ends with SQLSTATE EH001 and has written nothing. The store knows
-- that code, and tries again or another way.
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

create table everhook.application (
    environment integer not null,
    id bytea not null,
    uid text collate "C",
    name text not null,
    throttle_rate integer,
    metadata text not null,
    created_at bigint not null,
    updated_at bigint not null,
    revision bigint not null,
    deleted_at bigint,
    primary key (environment, id)
) with (fillfactor = 80);

create unique index application_uid on everhook.application (environment, uid)
where uid is not null and deleted_at is null;

create table everhook.endpoint (
    environment integer not null,
    application bytea not null,
    id bytea not null,
    uid text collate "C",
    url text not null,
    description text not null,
    state smallint not null,
    event_types text,
    channels text,
    headers text not null,
    throttle_rate integer,
    metadata text not null,
    version integer not null,
    keys text not null,
    created_at bigint not null,
    updated_at bigint not null,
    revision bigint not null,
    deleted_at bigint,
    primary key (environment, application, id)
);

create unique index endpoint_uid on everhook.endpoint (environment, application, uid)
where uid is not null and deleted_at is null;

-- Endpoints that are not deleted, so that neither their count nor a fan-out reads the deleted ones.
create index endpoint_open on everhook.endpoint (environment, application, id)
where deleted_at is null;

create table everhook.event_type (
    environment integer not null,
    name text collate "C" not null,
    description text not null,
    archived boolean not null,
    deprecated boolean not null,
    schemas text,
    feature_flag text collate "C",
    group_name text,
    created_at bigint not null,
    updated_at bigint not null,
    revision bigint not null,
    primary key (environment, name)
);

-- A queue that nobody configured has no row. It is open (0), paused (1), or stopped because its target wants no more (2).
create table everhook.queue (
    updated_at bigint not null,
    revision bigint not null,
    rate_us bigint, -- how much time one job takes up
    booked_until bigint not null default 0,
    environment integer not null,
    limit_max integer,
    key_limit_max integer,
    state smallint not null,
    name text collate "C" not null,
    target_url text,
    target_keys text,
    primary key (environment, name)
) with (fillfactor = 50);

create table everhook.schedule (
    created_at bigint not null,
    updated_at bigint not null,
    revision bigint not null,
    next bigint,
    queued bigint,
    look_at bigint not null,
    environment integer not null,
    paused boolean not null,
    id bytea not null,
    last_job bytea,
    name text collate "C" not null,
    spec text not null,
    starts text not null,
    primary key (environment, name)
) with (fillfactor = 50);

create index schedule_look on everhook.schedule (look_at)
where look_at < 9223372036854775807;
