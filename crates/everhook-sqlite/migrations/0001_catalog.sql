-- Configuration: environments, API keys and other credentials, resources, and the narrow tables that hot paths read.
-- All times are microseconds since the Unix epoch, except where a column says otherwise. `environment` is the number of
-- the owner.

-- The outermost tenants. The server itself uses the number 0, without a row.
create table environment (
    id integer primary key, -- the number that every other table names it by
    org blob not null unique, -- its public id
    name text not null unique, -- outbox rows and users name it so
    created_at integer not null
) strict;

-- API keys. A revoked one stays, so that its name can be shown.
create table api_key (
    id blob primary key, -- its public id
    hash blob not null unique, -- of the key itself, which is not stored
    hint text not null, -- its first and last characters
    environment integer, -- null: an admin key
    created_at integer not null,
    revoked_at integer, -- null: not revoked
    name text not null default '', -- as shown to people
    application blob, -- null: every application
    scope integer not null default 1, -- admin (0), operate (1), write (2), read (3)
    rights integer not null default 3, -- bits: reveal secrets (1), change URLs (2)
    expires_at integer, -- null: never
    last_used_at integer -- to the minute
) strict, without rowid;

-- Configured objects: applications (0), endpoints (1), event types (2), queues (3), schedules (4), integrations (5),
-- the policy of the environment (6), its portals (10), alerts (11), chat apps (12) and quotas (13). A queue without
-- configuration has no row. No hot statement reads this table: appends and leases read `lane_group` and `lane`, which
-- the same transactions write. The table has a rowid, because specs make its rows long.
create table resource (
    environment integer not null,
    kind integer not null,
    parent blob not null, -- the application that owns it; else empty
    id blob not null,
    name text, -- the uid or name
    state integer not null, -- a number of its kind; of an endpoint: enabled (0), disabled (1), gone (2)
    revision integer not null, -- raised by every change, for conditional changes
    created_at integer not null,
    updated_at integer not null,
    deleted_at integer, -- null: not deleted
    spec text not null, -- JSON that the engine reads; sealed if it has secrets
    info text not null, -- JSON with everything else
    primary key (environment, kind, parent, id)
) strict;

-- Finds a resource by its name, which is unique among those that are not deleted.
create unique index resource_name on resource (environment, kind, parent, name)
where name is not null and deleted_at is null;

-- Resources that are not deleted. With this index neither a count of endpoints nor a fan-out reads deleted ones.
create index resource_open on resource (environment, kind, parent, id)
where deleted_at is null;

-- Changed quotas, which every node lists every few seconds.
create index resource_quota on resource (updated_at)
where kind = 13;

-- The owners of lanes: an application, or a configured queue. The group is open (0), paused (1), or stopped because its
-- target refuses further jobs (2). Versions start at the current time, so that a deleted and reconfigured queue never
-- repeats a version of its predecessor.
create table lane_group (
    environment integer not null,
    id blob not null, -- of the application or queue
    version integer not null, -- raised by every change, also of an application's endpoints
    state integer not null default 0, -- open (0), paused (1), stopped (2)
    limit_max integer, -- leased jobs of the queue, over all replicas
    lane_limit_max integer, -- leased jobs of one concurrency key
    rate_us integer, -- the time that one job uses of the rate
    booked_until integer not null default 0, -- the rate is used up until this time
    pushes integer not null default 0, -- the queue has a target
    primary key (environment, id)
) strict, without rowid;

-- Queues with a target, whose jobs every node pushes.
create index lane_group_pushes on lane_group (environment, id)
where pushes;

-- Paused applications and queues, which every node lists every few seconds.
create index lane_group_paused on lane_group (environment, id)
where state = 1;

-- The next times of schedules. The jobs and messages that they start are in `resource`.
create table schedule (
    environment integer not null,
    id blob not null,
    next integer, -- the next nominal time; null: paused, or after the last one
    queued integer, -- the nominal time of a run that waits for the previous one
    look_at integer not null, -- when to decide again; the largest number: never
    last_job blob, -- the job of the last run
    primary key (environment, id)
) strict, without rowid;

-- Due schedules.
create index schedule_look on schedule (look_at)
where look_at < 9223372036854775807;

-- The keys that sign application tokens.
create table token_key (
    id blob primary key, -- named by the tokens that it signed
    secret blob not null, -- sealed
    created_at integer not null,
    superseded_at integer -- since when a newer key signs
) strict, without rowid;

-- The records that end application tokens before they expire.
create table token_end (
    environment integer not null,
    application blob not null,
    subject blob not null, -- empty: every token of the application; else the hash of a session or of one token
    issued_until integer not null, -- tokens issued later stay valid
    ends_at integer not null, -- when the tokens end
    forget_at integer not null, -- when all of these tokens have expired
    primary key (environment, application, subject, issued_until)
) strict, without rowid;

-- For retention.
create index token_end_forget on token_end (forget_at)
where forget_at < 9223372036854775807;

-- The keys that seal secrets: the one that seals now, and those that a rotation has not replaced everywhere yet. The
-- keys themselves are in a file or in the environment. An empty table means that secrets are plain text.
create table seal_key (
    id blob primary key, -- follows from the key
    state integer not null, -- current (0), retiring (1)
    created_at integer not null
) strict, without rowid;

-- The pause of egress. Without a row, nodes send.
create table egress_pause (
    id integer primary key check (id = 1), -- at most one row
    since integer not null, -- when the pause began
    reason text not null -- as shown to operators
) strict;
