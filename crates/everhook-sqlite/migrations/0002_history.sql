-- History: messages, jobs, attempts, results, batches, runs of schedules, keys under which an object is accepted once,
-- messages in the order in which pollers read them, counts of traffic, and the audit log.

-- The table has a rowid: with payloads in a tree ordered by key, a page would hold only a handful of keys. The key
-- starts with the application, so that it also serves the list of an application's messages.
create table message (
    environment integer not null,
    application blob not null,
    id blob not null,
    event_type text not null,
    event_id text, -- the sender's own id
    channels text, -- JSON; null: none
    tags text, -- JSON; null: none
    rest text, -- members that few messages have, as JSON: delivery time, content type, payload retention
    payload blob, -- the exact bytes; null: removed
    created_at integer not null,
    primary key (environment, application, id)
) strict;

-- The table has a rowid, because replies are long. The key allows one attempt per task and epoch, and finds the
-- attempts of a message or job.
create table attempt (
    kind integer not null, -- of the task: delivery (0), job (1)
    environment integer not null,
    subject blob not null, -- the message or job
    task blob not null,
    epoch integer not null, -- of the task, when the attempt was made
    id blob not null, -- sorts by time
    session blob, -- the holder of a job, or the holder that a delivery was taken over from
    endpoint blob, -- of deliveries
    class integer not null, -- of the outcome
    end_state integer not null, -- of the task: open (0), succeeded (1), dead (2), cancelled (3)
    "trigger" integer not null, -- scheduled (0), manual (1)
    url text not null, -- empty if a worker ran the job
    status integer not null, -- of the HTTP reply; 0: none
    reply blob not null, -- the receiver's reply, or the worker's report
    started_at integer not null,
    duration_us integer not null, -- from the start to the end
    exchange text, -- the steps of a delivery's request and the head of its reply, as JSON; null if nothing was sent
    primary key (environment, subject, task, epoch)
) strict;

-- The attempts of an endpoint.
create index attempt_endpoint on attempt (environment, endpoint, id)
where endpoint is not null;

-- Keys under which an object is accepted once: of requests, events, outbox rows and unique jobs.
create table dedup (
    environment integer not null,
    scope integer not null, -- idempotency key (0), event id (1), outbox row (2), unique job (3)
    hash blob not null, -- of the key
    object blob not null, -- the accepted message or job
    body blob not null, -- the hash of the body that came with the key
    expires_at integer not null,
    primary key (environment, scope, hash)
) strict, without rowid;

-- Payloads with a shorter retention period than their messages, by the time to erase them. Other messages have no row.
-- The key finds due rows in order.
create table payload_expiry (
    due_at integer not null, -- when to erase the payload
    environment integer not null,
    application blob not null,
    message blob not null,
    primary key (due_at, environment, application, message)
) strict, without rowid;

-- Requests with an idempotency key, and their answers, if the handlers do not deduplicate inside their own transaction.
create table request (
    environment integer not null,
    hash blob not null, -- of method, path and key
    holder blob not null, -- the claim
    body blob not null, -- the hash of the request's body
    status integer, -- null: in progress
    answer blob, -- sealed; null: too large to be kept, or in progress
    expires_at integer not null, -- of the claim, later of the answer
    primary key (environment, hash)
) strict;

-- For retention.
create index request_expires on request (expires_at);

-- Written once. The state of a job is the state of its task, or the end of its last attempt.
create table job (
    environment integer not null,
    id blob not null,
    queue text not null,
    kind text not null, -- names the handler
    name text, -- as shown to people
    priority integer not null, -- 0 runs first
    concurrency_key text, -- jobs with the same one share a lane
    tags text, -- JSON; null: none
    batch blob, -- null: none
    rest text, -- members that few jobs have, as JSON
    created_at integer not null,
    payload blob, -- null: removed
    primary key (environment, id)
) strict;

-- The jobs of a batch.
create index job_batch on job (environment, batch, id)
where batch is not null;

-- The background tasks of an environment: jobs of the server's own environment whose concurrency key is the number of
-- the environment.
create index job_background on job (concurrency_key, id)
where environment = 0
    and queue = 'everhook.background';

-- Only jobs that reported progress or a result have a row.
create table job_output (
    environment integer not null,
    job blob not null,
    progress integer, -- in percent
    progress_text text, -- what the job is doing
    result blob, -- null: none, or too large
    result_bytes integer, -- the size of a result that was too large to store
    updated_at integer not null, -- of the last report
    primary key (environment, job)
) strict;

-- Batches, with the number of their jobs in each state.
create table batch (
    environment integer not null,
    id blob not null,
    application blob not null, -- gets the announcements
    name text not null, -- as shown to people
    prefix text not null, -- of the event types of its announcements
    metadata text not null, -- JSON of the user, part of the announcements
    created_at integer not null,
    intake integer not null, -- open (0), sealed (1)
    phase integer not null, -- the number of the current phase
    announced integer, -- failed (0), completed (1); null: no announcement in this phase yet
    pending integer not null, -- the number of jobs, as in the next four columns
    succeeded integer not null,
    dead integer not null,
    cancelled integer not null,
    skipped integer not null, -- dead jobs that an operator has written off
    primary key (environment, id)
) strict, without rowid;

-- The latest runs of each schedule, started or left out.
create table schedule_run (
    environment integer not null,
    schedule blob not null,
    id blob not null, -- a generated id, which sorts by time
    nominal integer not null, -- the time by the rule
    at integer not null, -- the time of the decision
    kind integer not null, -- fired (0), missed (1), left out because of an overlap (2), manual (3)
    object blob, -- the job or message; null: none
    primary key (environment, schedule, id)
) strict, without rowid;

-- Attempts of a queue that ended in a minute, for its statistics.
create table queue_minute (
    environment integer not null,
    queue text not null,
    minute integer not null, -- minutes since the Unix epoch
    ended integer not null, -- the number of attempts
    primary key (environment, queue, minute)
) strict, without rowid;

-- Once-slots: keys under which an application's messages are accepted once per phase, and the calls that they
-- suppressed.

-- The current phase is open exactly if the winner's phase is lower. Retention uses `updated_at`.
create table once_slot (
    environment integer not null,
    application blob not null,
    key text not null, -- the sender's
    phase integer not null, -- the current one
    winner blob not null, -- the accepted message
    winner_phase integer not null, -- the phase in which the winner was accepted
    created_at integer not null,
    claimed_at integer not null, -- when the winner was accepted
    updated_at integer not null, -- of the last claim or reset
    primary key (environment, application, key)
) strict, without rowid;

-- Append-only, so that a suppressed call changes no slot. One row counts all calls that one transaction suppressed.
create table once_suppression (
    environment integer not null,
    application blob not null,
    key text not null, -- of the slot
    winner blob not null, -- the message that suppressed them
    calls integer not null, -- the number of suppressed calls
    created_at integer not null
) strict;

-- The suppressed calls of a slot.
create index once_suppression_slot on once_suppression (environment, application, key);

-- Messages for polled endpoints. An append adds rows without a position. A poll gives them positions, so that no row
-- ever appears behind a position that was read.
create table polled (
    environment integer not null,
    endpoint blob not null,
    message blob not null,
    position integer, -- null: no poll has seen it yet
    due_at integer not null, -- not given out earlier
    primary key (environment, endpoint, message)
) strict, without rowid;

-- Messages without a position, in the order in which they get one.
create index polled_waiting on polled (environment, endpoint, due_at, message)
where position is null;

-- Messages in the order of their positions, which are unique.
create unique index polled_position on polled (environment, endpoint, position)
where position is not null;

-- For retention, by whole days. An index on a plain column could be chosen for the statements of readers.
create index polled_day on polled ((due_at / 86400000000));

-- The last position of each polled endpoint.
create table poller (
    environment integer not null,
    endpoint blob not null,
    position integer not null, -- the last one given
    primary key (environment, endpoint)
) strict, without rowid;

-- The positions of named readers.
create table poll_consumer (
    environment integer not null,
    endpoint blob not null,
    name text not null, -- the reader's
    position integer not null, -- confirmed up to here
    generation integer not null, -- raised by every seek
    used_at integer not null, -- of the last poll
    primary key (environment, endpoint, name)
) strict, without rowid;

-- For retention.
create index poll_consumer_used on poll_consumer (used_at);

-- Counts of traffic: one row for each environment, span of time and run of a node, which replaces its rows.
create table traffic (
    environment integer not null,
    span integer not null, -- the length in seconds: 60, 900 or 3600
    start integer not null, -- seconds since the Unix epoch
    source blob not null, -- the run of a node
    counts text not null, -- JSON
    primary key (environment, span, start, source)
) strict, without rowid;

-- For retention.
create index traffic_start on traffic (span, start);

-- Notes of operators about groups of dead deliveries: those of an endpoint that failed in the same way.
create table failure_mark (
    environment integer not null,
    endpoint blob not null,
    class text not null, -- how the deliveries failed
    state integer not null, -- open (0), acknowledged (1), resolved (2)
    note text not null, -- the operator's
    marked_at integer not null, -- of the last note
    primary key (environment, endpoint, class)
) strict, without rowid;

-- The audit log, append-only.
create table audit (
    environment integer not null,
    seq integer not null, -- from 1 without gaps
    at integer not null,
    operation blob not null, -- joins the two phases
    phase integer not null, -- begun (0), ended (1)
    actor text not null, -- the name of the key, or a description of the token
    key_id blob, -- the API key; null: none
    principal text, -- the person on whose behalf the caller acts
    action text not null, -- the operation of the API
    object text not null, -- its path
    reason text, -- as given by the actor
    status integer, -- of the HTTP reply; null: begun
    request_hash blob, -- of the request's body
    before_hash blob, -- of the resource before the change
    after_hash blob, -- of the resource after the change
    hash blob not null, -- of this entry and the one before it
    primary key (environment, seq)
) strict, without rowid;

-- Finds the entries of an operation; one for each phase.
create unique index audit_operation on audit (environment, operation, phase);

create trigger audit_no_update before update on audit
begin
    select raise(abort, 'the audit log is append-only');
end;

create trigger audit_no_delete before delete on audit
begin
    select raise(abort, 'the audit log is append-only');
end;
