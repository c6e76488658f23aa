-- The lease engine: sessions, lanes, tasks.

create table session (
    id blob primary key,
    node text not null,
    version text not null,
    lease_us integer not null,
    started_at integer not null,
    lease_until integer not null,
    closed_at integer
) strict, without rowid;

-- A lane is open (0), held because its endpoint is disabled (1), or closing because its endpoint was deleted (2).
create table lane (
    environment integer not null,
    id blob not null,
    application blob not null,
    state integer not null,
    next_due integer not null default 9223372036854775807,
    hold_until integer not null default 0,
    ready_at integer not null generated always as (
        case state
            when 1 then 9223372036854775807
            when 2 then next_due
            else max(next_due, hold_until)
        end
    ) stored,
    primary key (environment, id)
) strict, without rowid;

create index lane_ready on lane (ready_at)
where ready_at < 9223372036854775807;

-- A task is pending (0), leased (1) or dead (2). The key begins with the subject, so that it also finds a message's open deliveries.
create table task (
    environment integer not null,
    subject blob not null,
    id blob not null,
    lane blob not null,
    kind integer not null,
    "trigger" integer not null,
    priority integer not null,
    due_at integer not null,
    tries integer not null,
    crashes integer not null,
    epoch integer not null,
    owner blob,
    deadline integer,
    cancel integer not null,
    state integer not null,
    primary key (environment, subject, id)
) strict, without rowid;

create index task_ready on task (environment, lane, priority, due_at, id)
where state = 0;

-- Only the sweep uses it.
create index task_owner on task (owner)
where state = 1;

create index task_dead on task (environment, lane, id)
where state = 2;
