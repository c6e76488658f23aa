-- Work in progress: sessions, workers, lanes, tasks; also the rows that belong to a job.

-- Periods in which a node or worker holds leases.
create table everhook.session (
    id bytea primary key,
    node text not null, -- its name
    version text not null, -- of its binary
    lease_us bigint not null, -- the lease time
    started_at bigint not null,
    lease_until bigint not null, -- renewed by the node; not indexed, so that a renewal stays cheap
    closed_at bigint, -- null: open
    role smallint not null -- the role of the node: all (0), api (1), worker (2)
) with (fillfactor = 50);

-- The queues and kinds that the sessions of workers take jobs from.
create table everhook.worker (
    environment integer not null,
    session bytea not null,
    queues text not null, -- JSON
    kinds text, -- JSON; null: all
    primary key (session)
);

-- The workers of an environment.
create index worker_environment on everhook.worker (environment, session);

-- A lane is open (0), held because its endpoint is disabled (1), or closing because its endpoint was deleted (2). Lanes
-- of a queue are always open: the state of the queue's lane group decides whether jobs are leased.
create table everhook.lane (
    environment integer not null,
    id bytea not null, -- of the endpoint, or of the queue with a concurrency key
    application bytea, -- of an endpoint
    feed bytea not null, -- '\x00' for deliveries, or the id of the queue
    state smallint not null, -- open (0), held (1), closing (2)
    -- When its first pending task is due; the largest number: none.
    next_due bigint not null default 9223372036854775807,
    hold_until bigint not null default 0, -- gives no tasks before
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
    -- Why it holds: back-off (0), rate limit (1), concurrency (2), order (3), retry (4), blocked (5), breaker (6).
    hold_kind smallint not null default 0,
    last_position bigint not null default 0, -- the last position that an ordered lane has given to a delivery
    breaker bigint not null default 0, -- a number that only the core reads; positive unless the breaker is closed
    primary key (environment, id)
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 1,
    vacuum_index_cleanup = on,
    vacuum_truncate = off
);

-- Ready lanes of a feed, in a total order, so that a lease can go on where the last one stopped.
create index lane_ready on everhook.lane (feed, ready_at, environment, id)
where ready_at < 9223372036854775807;

-- The lanes of a queue.
create index lane_queue on everhook.lane (environment, queue)
where queue is not null;

-- For the count of breakers that are not closed.
create index lane_breaker on everhook.lane (environment, id)
where breaker > 0;

-- A task is pending (0), leased (1) or dead (2). The key starts with the subject, so that it also finds the open
-- deliveries of a message.
create table everhook.task (
    due_at bigint not null, -- not leased earlier; the largest number: waits for an earlier delivery with its key
    environment integer not null,
    tries integer not null, -- attempts that the retry policy counts
    crashes integer not null, -- holders that crashed
    epoch integer not null, -- raised whenever the holder changes
    kind smallint not null, -- delivery (0), job (1)
    "trigger" smallint not null, -- scheduled (0), manual (1)
    priority smallint not null, -- 0 runs first
    state smallint not null, -- pending (0), leased (1), dead (2)
    cancel boolean not null, -- a user cancelled it while it was leased
    subject bytea not null, -- the message or job
    id bytea not null, -- of this life of the subject
    lane bytea not null,
    owner bytea, -- the session that holds it; set exactly while the task is leased
    deadline bigint, -- when a leased job is taken back
    leased_at bigint, -- null: inserted already leased, at due_at
    timeout_us bigint, -- of one attempt; of jobs, as are the next columns up to `batch`, except `limit_group`
    kind_hash integer, -- a hash of the kind
    limit_group bytea, -- the limited queue or endpoint that counts it while it is leased
    batch bytea, -- of the job
    order_key bigint, -- a hash of the value in the payload that orders deliveries; null: none
    order_position bigint, -- among the deliveries with its key
    order_blocks boolean, -- whether the later ones wait while it is dead
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

-- Pending tasks of a lane, in the order of their lease.
create index task_ready on everhook.task (environment, lane, priority, due_at, id)
where state = 0;

-- Used by the sweep, and to count the tasks of a session.
create index task_owner on everhook.task (owner)
where state = 1;

-- Dead tasks of a lane.
create index task_dead on everhook.task (environment, lane, id)
where state = 2;

-- Counts the leased tasks of a limited queue or endpoint.
create index task_limit_group on everhook.task (limit_group, lane)
where state = 1
    and limit_group is not null;

-- Leased tasks past their deadline.
create index task_deadline on everhook.task (deadline)
where state = 1
    and deadline is not null;

-- Dead jobs.
create index task_dead_job on everhook.task (environment, subject)
where state = 2
    and kind = 1;

-- A batch announces the first of its dead jobs. This index finds them, however many jobs the batch has.
create index task_dead_batch on everhook.task (environment, batch, subject)
where state = 2
    and batch is not null;

-- For each key: those that were due at some time come first, then those that wait, in order.
create index task_order on everhook.task (environment, lane, order_key, due_at, order_position)
where order_key is not null;

-- The rows that belong to a job, for the statements that show jobs. Each function has one plain `select`, so that
-- PostgreSQL replaces its call in a `from` clause by that `select` and plans the whole statement at once.

-- The newest task of a job: open or dead.
create function everhook.task_of_job(environment integer, job bytea) returns setof everhook.task
language sql stable rows 1 as $$
    select task.*
    from everhook.task
    where task.environment = $1
        and task.subject = $2
    order by task.id desc
    limit 1
$$;

-- The last attempt of a job.
create function everhook.last_attempt_of_job(environment integer, job bytea) returns setof everhook.attempt
language sql stable rows 1 as $$
    select attempt.*
    from everhook.attempt
    where attempt.kind = 1
        and attempt.environment = $1
        and attempt.subject = $2
    order by attempt.task desc, attempt.epoch desc
    limit 1
$$;

-- The progress and result of a job.
create function everhook.output_of_job(environment integer, job bytea) returns setof everhook.job_output
language sql stable rows 1 as $$
    select job_output.*
    from everhook.job_output
    where job_output.environment = $1
        and job_output.job = $2
    limit 1
$$;
