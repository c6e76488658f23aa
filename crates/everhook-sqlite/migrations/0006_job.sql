-- Jobs, queues, batches, schedules, workers.

-- Written once: where a job stands is what its task says, or else its last attempt.
create table job (
    environment integer not null,
    id blob not null,
    queue text not null,
    kind text not null,
    name text,
    priority integer not null,
    concurrency_key text,
    tags text,
    batch blob,
    rest text, -- what most jobs do not say, as JSON
    created_at integer not null,
    payload blob, -- null: removed
    primary key (environment, id)
) strict;

create index job_batch on job (environment, batch, id)
where batch is not null;

-- The key allows one attempt per task and epoch, and serves a job's attempts.
create table job_attempt (
    environment integer not null,
    job blob not null,
    task blob not null,
    epoch integer not null,
    id blob not null,
    session blob not null,
    class integer not null,
    end_state integer not null,
    status integer not null,
    note blob not null,
    started_at integer not null,
    duration_us integer not null,
    primary key (environment, job, task, epoch)
) strict, without rowid;

-- Only jobs that report something have a row.
create table job_output (
    environment integer not null,
    job blob not null,
    progress integer,
    progress_text text,
    result blob,
    result_bytes integer, -- of a result that was too large to keep
    updated_at integer not null,
    primary key (environment, job)
) strict;

-- A queue that nobody configured has no row. It is open (0), paused (1), or stopped because its target wants no more (2).
create table queue (
    environment integer not null,
    name text not null,
    state integer not null,
    limit_max integer,
    key_limit_max integer,
    rate_us integer, -- how much time one job takes up
    booked_until integer not null default 0,
    target_url text,
    target_keys text,
    updated_at integer not null,
    revision integer not null,
    primary key (environment, name)
) strict, without rowid;

create table queue_minute (
    environment integer not null,
    queue text not null,
    minute integer not null,
    ended integer not null,
    primary key (environment, queue, minute)
) strict, without rowid;

-- The lane of a queue is held (1) as far as deliveries are concerned: no binary that knows of no jobs takes them for deliveries.
alter table lane add column queue text;

create index lane_queue on lane (environment, queue, max(next_due, hold_until))
where queue is not null;

-- Of jobs only.
alter table task add column timeout_us integer;

-- Stands for the kind.
alter table task add column handler integer;

-- What it is counted under while it is leased, where its queue has a limit.
alter table task add column gate blob;

alter table task add column batch blob;

create index task_gate on task (gate, lane)
where state = 1
    and gate is not null;

create index task_deadline on task (deadline)
where state = 1
    and deadline is not null;

create index task_dead_job on task (environment, subject)
where state = 2
    and kind = 1;

-- A batch announces the first of its dead jobs, however many jobs it has.
create index task_dead_batch on task (environment, batch, subject)
where state = 2
    and batch is not null;

create table batch (
    environment integer not null,
    id blob not null,
    application blob not null,
    name text not null,
    prefix text not null,
    metadata text not null,
    created_at integer not null,
    intake integer not null,
    phase integer not null,
    announced integer, -- null: this phase has announced nothing
    pending integer not null,
    succeeded integer not null,
    dead integer not null,
    cancelled integer not null,
    skipped integer not null,
    primary key (environment, id)
) strict, without rowid;

create table schedule (
    environment integer not null,
    name text not null,
    id blob not null,
    spec text not null,
    starts text not null,
    paused integer not null,
    next integer,
    queued integer,
    look_at integer not null,
    last_job blob,
    created_at integer not null,
    updated_at integer not null,
    revision integer not null,
    primary key (environment, name)
) strict, without rowid;

create index schedule_look on schedule (look_at)
where look_at < 9223372036854775807;

create table schedule_run (
    environment integer not null,
    schedule blob not null,
    id blob not null, -- drawn, so that it sorts by time
    nominal integer not null,
    at integer not null,
    kind integer not null,
    object blob,
    primary key (environment, schedule, id)
) strict, without rowid;

-- What the sessions of workers take.
create table worker (
    session blob primary key,
    environment integer not null,
    queues text not null,
    kinds text
) strict, without rowid;

create index worker_environment on worker (environment, session);
