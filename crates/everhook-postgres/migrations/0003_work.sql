-- Work in progress: sessions, workers, lanes, tasks.

create table everhook.session (
    id bytea primary key,
    node text not null,
    version text not null,
    lease_us bigint not null,
    started_at bigint not null,
    lease_until bigint not null, -- not indexed, so that a renewal stays cheap
    closed_at bigint,
    role smallint not null -- the role of the node: all (0), api (1), worker (2)
) with (fillfactor = 50);

-- The queues and kinds that the sessions of workers take jobs from.
create table everhook.worker (
    environment integer not null,
    session bytea not null,
    queues text not null,
    kinds text,
    primary key (session)
);

create index worker_environment on everhook.worker (environment, session);

-- A lane is open (0), held because its endpoint is disabled (1), or closing because its endpoint was deleted (2). Lanes
-- of a queue are always open: the state of the queue's lane group decides whether jobs are leased.
create table everhook.lane (
    environment integer not null,
    id bytea not null,
    application bytea, -- of an endpoint
    feed bytea not null, -- '\x00' for deliveries, or the id of the queue
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
    waiting boolean not null default false, -- new deliveries wait for a slot; later ones must not overtake them
    floor bigint not null default 0, -- no pending task is due earlier: scans start here; never above `next_due`
    queue text collate "C", -- of jobs
    primary key (environment, id)
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 1,
    vacuum_index_cleanup = on,
    vacuum_truncate = off
);

create index lane_ready on everhook.lane (feed, ready_at)
where ready_at < 9223372036854775807;

create index lane_queue on everhook.lane (environment, queue)
where queue is not null;

-- A task is pending (0), leased (1) or dead (2). The key starts with the subject, so that it also finds the open
-- deliveries of a message.
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
    owner bytea, -- set exactly while the task is leased
    deadline bigint,
    leased_at bigint, -- null: inserted already leased, at due_at
    timeout_us bigint, -- this and the following columns: jobs only
    kind_hash integer, -- a hash of the kind
    limit_group bytea, -- the limited queue that counts it while it is leased
    batch bytea,
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

-- Used by the sweep, and to count the tasks of a session.
create index task_owner on everhook.task (owner)
where state = 1;

create index task_dead on everhook.task (environment, lane, id)
where state = 2;

create index task_limit_group on everhook.task (limit_group, lane)
where state = 1
    and limit_group is not null;

create index task_deadline on everhook.task (deadline)
where state = 1
    and deadline is not null;

create index task_dead_job on everhook.task (environment, subject)
where state = 2
    and kind = 1;

create index task_dead_batch on everhook.task (environment, batch, subject)
where state = 2
    and batch is not null;
