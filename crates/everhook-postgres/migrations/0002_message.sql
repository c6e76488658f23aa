-- What happened: messages, attempts, and the keys under which something is accepted once.
-- Messages and attempts are partitioned by week of the message's id; the store makes the partitions, before they are needed.

-- The key begins with the application, so that it also serves the list of an application's messages.
create table everhook.message (
    created_at bigint not null,
    environment integer not null,
    application bytea not null,
    id bytea not null,
    event_type text collate "C" not null,
    event_id text collate "C",
    channels text,
    tags text,
    payload bytea, -- null: removed
    primary key (environment, application, id)
) partition by range (id);

-- The key allows one attempt per task and epoch, and serves a message's attempts.
create table everhook.attempt (
    started_at bigint not null,
    duration_us bigint not null,
    environment integer not null,
    epoch integer not null,
    status integer not null,
    class smallint not null,
    end_state smallint not null,
    "trigger" smallint not null,
    subject bytea not null,
    task bytea not null,
    id bytea not null,
    endpoint bytea not null,
    url text not null,
    reply bytea not null,
    primary key (environment, subject, task, epoch)
) partition by range (subject);

create index attempt_endpoint on everhook.attempt (environment, endpoint, id);

create table everhook.dedup (
    expires_at bigint not null,
    environment integer not null,
    scope smallint not null,
    hash bytea not null,
    object bytea not null,
    body bytea not null,
    primary key (environment, scope, hash)
) with (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 1,
    vacuum_truncate = off
);
