-- Work in progress: sessions, workers, lanes, tasks.

-- Periods in which a node or worker holds leases.
create table session (
    id blob primary key,
    node text not null, -- its name
    version text not null, -- of its binary
    lease_us integer not null, -- the lease time
    started_at integer not null,
    lease_until integer not null, -- renewed by the node
    closed_at integer, -- null: open
    role integer not null -- the role of the node: all (0), api (1), worker (2)
) strict, without rowid;

-- The queues and kinds that the sessions of workers take jobs from.
create table worker (
    session blob primary key,
    environment integer not null,
    queues text not null, -- JSON
    kinds text -- JSON; null: all
) strict, without rowid;

-- The workers of an environment.
create index worker_environment on worker (environment, session);

-- A lane is open (0), held because its endpoint is disabled (1), or closing because its endpoint was deleted (2). Lanes
-- of a queue are always open: the state of the queue's lane group decides whether jobs are leased.
create table lane (
    environment integer not null,
    id blob not null, -- of the endpoint, or of the queue with a concurrency key
    application blob, -- of an endpoint
    feed blob not null, -- x'00' for deliveries, or the id of the queue
    state integer not null, -- open (0), held (1), closing (2)
    -- When its first pending task is due; the largest number: none.
    next_due integer not null default 9223372036854775807,
    hold_until integer not null default 0, -- gives no tasks before
    ready_at integer not null generated always as (
        case state
            when 1 then 9223372036854775807
            when 2 then next_due
            else max(next_due, hold_until)
        end
    ) stored,
    waiting integer not null default 0, -- new deliveries wait for a slot; later ones must not overtake them
    queue text, -- of jobs
    -- Why it holds: back-off (0), rate limit (1), concurrency (2), order (3), retry (4), blocked (5), breaker (6).
    hold_kind integer not null default 0,
    last_position integer not null default 0, -- the last position that an ordered lane has given to a delivery
    breaker integer not null default 0, -- a number that only the core reads; positive unless the breaker is closed
    primary key (environment, id)
) strict, without rowid;

-- Ready lanes of a feed, in a total order, so that a lease can go on where the last one stopped.
create index lane_ready on lane (feed, ready_at)
where ready_at < 9223372036854775807;

-- The lanes of a queue.
create index lane_queue on lane (environment, queue)
where queue is not null;

-- For the count of breakers that are not closed.
create index lane_breaker on lane (environment, id)
where breaker > 0;

-- A task is pending (0), leased (1) or dead (2). The key starts with the subject, so that it also finds the open
-- deliveries of a message.
create table task (
    environment integer not null,
    subject blob not null, -- the message or job
    id blob not null, -- of this life of the subject
    lane blob not null,
    kind integer not null, -- delivery (0), job (1)
    "trigger" integer not null, -- scheduled (0), manual (1)
    priority integer not null, -- 0 runs first
    due_at integer not null, -- not leased earlier; the largest number: waits for an earlier delivery with its key
    tries integer not null, -- attempts that the retry policy counts
    crashes integer not null, -- holders that crashed
    epoch integer not null, -- raised whenever the holder changes
    owner blob, -- the session that holds it; set exactly while the task is leased
    deadline integer, -- when a leased job is taken back
    cancel integer not null, -- a user cancelled it while it was leased
    state integer not null, -- pending (0), leased (1), dead (2)
    leased_at integer, -- null: inserted already leased, at due_at
    timeout_us integer, -- of one attempt; of jobs, as are the next columns up to `batch`, except `limit_group`
    kind_hash integer, -- a hash of the kind
    limit_group blob, -- the limited queue or endpoint that counts it while it is leased
    batch blob, -- of the job
    order_key integer, -- a hash of the value in the payload that orders deliveries; null: none
    order_position integer, -- among the deliveries with its key
    order_blocks integer, -- whether the later ones wait while it is dead
    primary key (environment, subject, id)
) strict, without rowid;

-- Pending tasks of a lane, in the order of their lease.
create index task_ready on task (environment, lane, priority, due_at, id)
where state = 0;

-- Used by the sweep, and to count the tasks of a session.
create index task_owner on task (owner)
where state = 1;

-- Dead tasks of a lane.
create index task_dead on task (environment, lane, id)
where state = 2;

-- Counts the leased tasks of a limited queue or endpoint.
create index task_limit_group on task (limit_group, lane)
where state = 1
    and limit_group is not null;

-- Leased tasks past their deadline.
create index task_deadline on task (deadline)
where state = 1
    and deadline is not null;

-- Dead jobs.
create index task_dead_job on task (environment, subject)
where state = 2
    and kind = 1;

-- A batch announces the first of its dead jobs. This index finds them, however many jobs the batch has.
create index task_dead_batch on task (environment, batch, subject)
where state = 2
    and batch is not null;

-- For each key: those that were due at some time come first, then those that wait, in order.
create index task_order on task (environment, lane, order_key, due_at, order_position)
where order_key is not null;
