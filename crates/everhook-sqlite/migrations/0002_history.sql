-- History: messages, jobs, attempts, results, batches, runs of schedules, and keys under which an object is accepted
-- once.

-- The table has a rowid: with payloads in a tree ordered by key, a page would hold only a handful of keys. The key
-- starts with the application, so that it also serves the list of an application's messages.
create table message (
    environment integer not null,
    application blob not null,
    id blob not null,
    event_type text not null,
    event_id text,
    channels text,
    tags text,
    rest text, -- members that few messages have, as JSON: delivery time, content type, payload retention
    payload blob, -- null: removed
    created_at integer not null,
    primary key (environment, application, id)
) strict;

-- The table has a rowid, because replies are long. The key allows one attempt per task and epoch, and finds the
-- attempts of a message or job.
create table attempt (
    kind integer not null,
    environment integer not null,
    subject blob not null,
    task blob not null,
    epoch integer not null,
    id blob not null,
    session blob, -- the holder of a job, or the holder that a delivery was taken over from
    endpoint blob, -- of deliveries
    class integer not null,
    end_state integer not null,
    "trigger" integer not null,
    url text not null, -- empty if a worker ran the job
    status integer not null,
    reply blob not null, -- the receiver's reply, or the worker's report
    started_at integer not null,
    duration_us integer not null,
    primary key (environment, subject, task, epoch)
) strict;

create index attempt_endpoint on attempt (environment, endpoint, id)
where endpoint is not null;

create table dedup (
    environment integer not null,
    scope integer not null,
    hash blob not null,
    object blob not null,
    body blob not null,
    expires_at integer not null,
    primary key (environment, scope, hash)
) strict, without rowid;

-- Payloads with a shorter retention period than their messages, by the time to erase them. Other messages have no row.
-- The key finds due rows in order.
create table payload_expiry (
    due_at integer not null,
    environment integer not null,
    application blob not null,
    message blob not null,
    primary key (due_at, environment, application, message)
) strict, without rowid;

-- Written once. The state of a job is the state of its task, or the end of its last attempt.
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
    rest text, -- members that few jobs have, as JSON
    created_at integer not null,
    payload blob, -- null: removed
    primary key (environment, id)
) strict;

create index job_batch on job (environment, batch, id)
where batch is not null;

-- Only jobs that reported progress or a result have a row.
create table job_output (
    environment integer not null,
    job blob not null,
    progress integer,
    progress_text text,
    result blob,
    result_bytes integer, -- the size of a result that was too large to store
    updated_at integer not null,
    primary key (environment, job)
) strict;

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
    announced integer, -- null: no announcement in this phase yet
    pending integer not null,
    succeeded integer not null,
    dead integer not null,
    cancelled integer not null,
    skipped integer not null,
    primary key (environment, id)
) strict, without rowid;

create table schedule_run (
    environment integer not null,
    schedule blob not null,
    id blob not null, -- a generated id, which sorts by time
    nominal integer not null,
    at integer not null,
    kind integer not null,
    object blob,
    primary key (environment, schedule, id)
) strict, without rowid;

create table queue_minute (
    environment integer not null,
    queue text not null,
    minute integer not null,
    ended integer not null,
    primary key (environment, queue, minute)
) strict, without rowid;

-- Once-slots: keys under which an application's messages are accepted once per phase, and the calls that they
-- suppressed.

-- The current phase is open exactly if the winner's phase is lower. Retention uses `updated_at`.
create table once_slot (
    environment integer not null,
    application blob not null,
    key text not null,
    phase integer not null,
    winner blob not null,
    winner_phase integer not null,
    created_at integer not null,
    claimed_at integer not null,
    updated_at integer not null,
    primary key (environment, application, key)
) strict, without rowid;

-- Append-only, so that a suppressed call changes no slot. One row counts all calls that one transaction suppressed.
create table once_suppression (
    environment integer not null,
    application blob not null,
    key text not null,
    winner blob not null,
    calls integer not null,
    created_at integer not null
) strict;

create index once_suppression_slot on once_suppression (environment, application, key);
