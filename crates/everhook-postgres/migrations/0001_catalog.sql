-- What users configure: environments, keys, applications, endpoints, event types. And the store's clock.

-- The only wall clock: microseconds since the Unix epoch, read when it is called and not when the transaction began.
create function everhook.now_us() returns bigint
language sql volatile parallel safe
as $$ select (extract(epoch from pg_catalog.clock_timestamp()) * 1000000)::bigint $$;

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
