-- The lease engine: sessions, lanes, tasks.

create table everhook.session (
    id bytea primary key,
    node text not null,
    version text not null,
    lease_us bigint not null,
    started_at bigint not null,
    lease_until bigint not null, -- in no index: a renewal must stay cheap
    closed_at bigint
) with (fillfactor = 50);

-- A lane is open (0), held because its endpoint is disabled (1), or closing because its endpoint was deleted (2).
create table everhook.lane (
    environment integer not null,
    id bytea not null,
    application bytea not null,
    state smallint not null,
    next_due bigint not null default 9223372036854775807,
    hold_until bigint not null default 0,
    ready_at bigint not null generated always as (
        case state
            when 1 then 9223372036854775807
            when 2 then next_due
            else greatest(next_due, hold_until)
        end
    ) stored,
    primary key (environment, id)
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 1,
    vacuum_index_cleanup = on,
    vacuum_truncate = off
);

create index lane_ready on everhook.lane (ready_at)
where ready_at < 9223372036854775807;

-- A task is pending (0), leased (1) or dead (2). The key begins with the subject, so that it also finds a message's open deliveries.
create table everhook.task (
    due_at bigint not null,
    environment integer not null,
    tries integer not null,
    crashes integer not null,
    epoch integer not null,
    kind smallint not null,
    "trigger" smallint not null,
    priority smallint not null,
    state smallint not null,
    cancel boolean not null,
    subject bytea not null,
    id bytea not null,
    lane bytea not null,
    owner bytea, -- not null exactly while it is leased
    deadline bigint,
    primary key (environment, subject, id)
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 1,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 10000,
    vacuum_index_cleanup = on,
    vacuum_truncate = off
);

create index task_ready on everhook.task (environment, lane, priority, due_at, id)
where state = 0;

-- Only the sweep uses it.
create index task_owner on everhook.task (owner)
where state = 1;

create index task_dead on everhook.task (environment, lane, id)
where state = 2;
