-- Configuration: environments, API keys and other credentials, resources, and the narrow tables that hot paths read;
-- also the store's clock and `everhook.expect`. All times are microseconds since the Unix epoch, except where a column
-- says otherwise. `environment` is the number of the owner.

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

-- The outermost tenants. The server itself uses the number 0, without a row.
create table everhook.environment (
    id integer generated always as identity primary key, -- the number that every other table names it by
    org bytea not null unique, -- its public id
    name text collate "C" not null unique, -- outbox rows and users name it so
    created_at bigint not null
);

-- API keys. A revoked one stays, so that its name can be shown.
create table everhook.api_key (
    id bytea primary key, -- its public id
    hash bytea not null unique, -- of the key itself, which is not stored
    hint text not null, -- its first and last characters
    environment integer, -- null: an admin key
    created_at bigint not null,
    revoked_at bigint, -- null: not revoked
    name text not null default '', -- as shown to people
    application bytea, -- null: every application
    scope smallint not null default 1, -- admin (0), operate (1), write (2), read (3)
    rights smallint not null default 3, -- bits: reveal secrets (1), change URLs (2)
    expires_at bigint, -- null: never
    last_used_at bigint -- to the minute
);

-- Configured objects: applications (0), endpoints (1), event types (2), queues (3), schedules (4), integrations (5),
-- the policy of the environment (6), its portals (10), alerts (11), chat apps (12) and quotas (13). A queue without
-- configuration has no row. No hot statement reads this table: appends and leases read `lane_group` and `lane`, which
-- the same transactions write.
create table everhook.resource (
    created_at bigint not null,
    updated_at bigint not null,
    deleted_at bigint, -- null: not deleted
    revision bigint not null, -- raised by every change, for conditional changes
    environment integer not null,
    kind smallint not null,
    state smallint not null, -- a number of its kind; of an endpoint: enabled (0), disabled (1), gone (2)
    parent bytea not null, -- the application that owns it; else empty
    id bytea not null,
    name text collate "C", -- the uid or name
    spec text not null, -- JSON that the engine reads; sealed if it has secrets
    info text not null, -- JSON with everything else
    primary key (environment, kind, parent, id)
);

-- Finds a resource by its name, which is unique among those that are not deleted.
create unique index resource_name on everhook.resource (environment, kind, parent, name)
where name is not null and deleted_at is null;

-- Resources that are not deleted. With this index neither a count of endpoints nor a fan-out reads deleted ones.
create index resource_open on everhook.resource (environment, kind, parent, id)
where deleted_at is null;

-- Changed quotas, which every node lists every few seconds.
create index resource_quota on everhook.resource (updated_at)
where kind = 13;

-- The owners of lanes: an application, or a configured queue. The group is open (0), paused (1), or stopped because its
-- target refuses further jobs (2). Versions start at the current time, so that a deleted and reconfigured queue never
-- repeats a version of its predecessor.
create table everhook.lane_group (
    version bigint not null, -- raised by every change, also of an application's endpoints
    booked_until bigint not null default 0, -- the rate is used up until this time
    rate_us bigint, -- the time that one job uses of the rate
    environment integer not null,
    limit_max integer, -- leased jobs of the queue, over all replicas
    lane_limit_max integer, -- leased jobs of one concurrency key
    state smallint not null default 0, -- open (0), paused (1), stopped (2)
    pushes boolean not null default false, -- the queue has a target
    id bytea not null, -- of the application or queue
    primary key (environment, id)
) with (fillfactor = 50);

-- Queues with a target, whose jobs every node pushes.
create index lane_group_pushes on everhook.lane_group (environment, id)
where pushes;

-- Paused applications and queues, which every node lists every few seconds.
create index lane_group_paused on everhook.lane_group (environment, id)
where state = 1;

-- The next times of schedules. The jobs and messages that they start are in `resource`.
create table everhook.schedule (
    next bigint, -- the next nominal time; null: paused, or after the last one
    queued bigint, -- the nominal time of a run that waits for the previous one
    look_at bigint not null, -- when to decide again; the largest number: never
    environment integer not null,
    id bytea not null,
    last_job bytea, -- the job of the last run
    primary key (environment, id)
) with (fillfactor = 50);

-- Due schedules.
create index schedule_look on everhook.schedule (look_at)
where look_at < 9223372036854775807;

-- The keys that sign application tokens.
create table everhook.token_key (
    created_at bigint not null,
    superseded_at bigint, -- since when a newer key signs
    id bytea primary key, -- named by the tokens that it signed
    secret bytea not null -- sealed
);

-- The records that end application tokens before they expire.
create table everhook.token_end (
    issued_until bigint not null, -- tokens issued later stay valid
    ends_at bigint not null, -- when the tokens end
    forget_at bigint not null, -- when all of these tokens have expired
    environment integer not null,
    application bytea not null,
    subject bytea not null, -- empty: every token of the application; else the hash of a session or of one token
    primary key (environment, application, subject, issued_until)
);

-- For retention.
create index token_end_forget on everhook.token_end (forget_at)
where forget_at < 9223372036854775807;

-- The keys that seal secrets: the one that seals now, and those that a rotation has not replaced everywhere yet. The
-- keys themselves are in a file or in the environment. An empty table means that secrets are plain text.
create table everhook.seal_key (
    id bytea primary key, -- follows from the key
    state smallint not null, -- current (0), retiring (1)
    created_at bigint not null
);

-- The pause of egress. Without a row, nodes send.
create table everhook.egress_pause (
    id integer primary key check (id = 1), -- at most one row
    since bigint not null, -- when the pause began
    reason text not null -- as shown to operators
);
