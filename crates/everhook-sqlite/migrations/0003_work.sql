-- Work in progress: sessions, workers, lanes, tasks.

create table session (
    id blob primary key,
    node text not null,
    version text not null,
    lease_us integer not null,
    started_at integer not null,
    lease_until integer not null,
    closed_at integer,
    role integer not null -- the role of the node: all (0), api (1), worker (2)
) strict, without rowid;

-- The queues and kinds that the sessions of workers take jobs from.
create table worker (
    session blob primary key,
    environment integer not null,
    queues text not null,
    kinds text
) strict, without rowid;

create index worker_environment on worker (environment, session);

-- A lane is open (0), held because its endpoint is disabled (1), or closing because its endpoint was deleted (2). Lanes
-- of a queue are always open: the state of the queue's lane group decides whether jobs are leased.
create table lane (
    environment integer not null,
    id blob not null,
    application blob, -- of an endpoint
    feed blob not null, -- x'00' for deliveries, or the id of the queue
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
    waiting integer not null default 0, -- new deliveries wait for a slot; later ones must not overtake them
    queue text, -- of jobs
    primary key (environment, id)
) strict, without rowid;

create index lane_ready on lane (feed, ready_at)
where ready_at < 9223372036854775807;

create index lane_queue on lane (environment, queue)
where queue is not null;

-- A task is pending (0), leased (1) or dead (2). The key starts with the subject, so that it also finds the open
-- deliveries of a message.
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
    leased_at integer, -- null: inserted already leased, at due_at
    timeout_us integer, -- this and the following columns: jobs only
    kind_hash integer, -- a hash of the kind
    limit_group blob, -- the limited queue that counts it while it is leased
    batch blob,
    primary key (environment, subject, id)
) strict, without rowid;

create index task_ready on task (environment, lane, priority, due_at, id)
where state = 0;

-- Used by the sweep, and to count the tasks of a session.
create index task_owner on task (owner)
where state = 1;

create index task_dead on task (environment, lane, id)
where state = 2;

create index task_limit_group on task (limit_group, lane)
where state = 1
    and limit_group is not null;

create index task_deadline on task (deadline)
where state = 1
    and deadline is not null;

create index task_dead_job on task (environment, subject)
where state = 2
    and kind = 1;

-- A batch announces the first of its dead jobs. This index finds them, however many jobs the batch has.
create index task_dead_batch on task (environment, batch, subject)
where state = 2
    and batch is not null;
