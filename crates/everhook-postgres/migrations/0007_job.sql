-- Jobs, queues, batches, schedules, workers. Jobs and their attempts are partitioned by week of the job's id, like messages.

-- Written once: where a job stands is what its task says, or else its last attempt.
create table everhook.job (
    created_at bigint not null,
    environment integer not null,
    priority smallint not null,
    id bytea not null,
    queue text collate "C" not null,
    kind text collate "C" not null,
    name text,
    concurrency_key text,
    tags text,
    batch bytea,
    rest text, -- what most jobs do not say, as JSON
    payload bytea, -- null: removed
    primary key (environment, id)
) partition by range (id);

create index job_batch on everhook.job (environment, batch, id)
where batch is not null;

-- The key allows one attempt per task and epoch, and serves a job's attempts.
create table everhook.job_attempt (
    started_at bigint not null,
    duration_us bigint not null,
    environment integer not null,
    epoch integer not null,
    status integer not null,
    class smallint not null,
    end_state smallint not null,
    job bytea not null,
    task bytea not null,
    id bytea not null,
    session bytea not null,
    note bytea not null,
    primary key (environment, job, task, epoch)
) partition by range (job);

-- Only jobs that report something have a row.
create table everhook.job_output (
    updated_at bigint not null,
    environment integer not null,
    result_bytes integer, -- of a result that was too large to keep
    progress smallint,
    job bytea not null,
    progress_text text,
    result bytea,
    primary key (environment, job)
) with (fillfactor = 60);

-- A queue that nobody configured has no row. It is open (0), paused (1), or stopped because its target wants no more (2).
create table everhook.queue (
    updated_at bigint not null,
    revision bigint not null,
    rate_us bigint, -- how much time one job takes up
    booked_until bigint not null default 0,
    environment integer not null,
    limit_max integer,
    key_limit_max integer,
    state smallint not null,
    name text collate "C" not null,
    target_url text,
    target_keys text,
    primary key (environment, name)
) with (fillfactor = 50);

create table everhook.queue_minute (
    environment integer not null,
    minute bigint not null,
    ended bigint not null,
    queue text collate "C" not null,
    primary key (environment, queue, minute)
) with (fillfactor = 50);

-- The lane of a queue is held (1) as far as deliveries are concerned: no binary that knows of no jobs takes them for deliveries.
alter table everhook.lane add column queue text collate "C";

create index lane_queue on everhook.lane (environment, queue, (greatest(next_due, hold_until)))
where queue is not null;

-- Of jobs only. What most do not have is null and takes no room.
alter table everhook.task
    add column timeout_us bigint,
    add column handler integer, -- stands for the kind
    add column gate bytea, -- what it is counted under while it is leased, where its queue has a limit
    add column batch bytea;

create index task_gate on everhook.task (gate, lane)
where state = 1
    and gate is not null;

create index task_deadline on everhook.task (deadline)
where state = 1
    and deadline is not null;

create index task_dead_job on everhook.task (environment, subject)
where state = 2
    and kind = 1;

create index task_dead_batch on everhook.task (environment, batch, subject)
where state = 2
    and batch is not null;

create table everhook.batch (
    created_at bigint not null,
    environment integer not null,
    phase integer not null,
    pending integer not null,
    succeeded integer not null,
    dead integer not null,
    cancelled integer not null,
    skipped integer not null,
    intake smallint not null,
    announced smallint, -- null: this phase has announced nothing
    id bytea not null,
    application bytea not null,
    name text not null,
    prefix text collate "C" not null,
    metadata text not null,
    primary key (environment, id)
) with (fillfactor = 50);

create table everhook.schedule (
    created_at bigint not null,
    updated_at bigint not null,
    revision bigint not null,
    next bigint,
    queued bigint,
    look_at bigint not null,
    environment integer not null,
    paused boolean not null,
    id bytea not null,
    last_job bytea,
    name text collate "C" not null,
    spec text not null,
    starts text not null,
    primary key (environment, name)
) with (fillfactor = 50);

create index schedule_look on everhook.schedule (look_at)
where look_at < 9223372036854775807;

create table everhook.schedule_run (
    nominal bigint not null,
    at bigint not null,
    environment integer not null,
    kind smallint not null,
    schedule bytea not null,
    id bytea not null, -- drawn, so that it sorts by time
    object bytea,
    primary key (environment, schedule, id)
);

-- What the sessions of workers take.
create table everhook.worker (
    environment integer not null,
    session bytea not null,
    queues text not null,
    kinds text,
    primary key (session)
);

create index worker_environment on everhook.worker (environment, session);
