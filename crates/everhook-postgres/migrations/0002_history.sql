-- History: messages, jobs, attempts, results, batches, runs of schedules, keys under which an object is accepted once,
-- messages in the order in which pollers read them, counts of traffic, and the audit log. Messages, jobs and attempts
-- are partitioned by the week of the message's or job's id. The store creates the partitions ahead.

-- The key starts with the application, so that it also serves the list of an application's messages.
create table everhook.message (
    created_at bigint not null,
    environment integer not null,
    application bytea not null,
    id bytea not null,
    event_type text collate "C" not null,
    event_id text collate "C", -- the sender's own id
    channels text, -- JSON; null: none
    tags text, -- JSON; null: none
    rest text, -- members that few messages have, as JSON: delivery time, content type, payload retention
    payload bytea, -- the exact bytes; null: removed
    primary key (environment, application, id)
) partition by range (id);

-- The key allows one attempt per task and epoch, and finds the attempts of a message or job. Attempts of deliveries and
-- jobs have separate partitions, because their retention periods differ. A partitioned key must contain the kind, which
-- is why it ends with it.
create table everhook.attempt (
    started_at bigint not null,
    duration_us bigint not null, -- from the start to the end
    environment integer not null,
    epoch integer not null, -- of the task, when the attempt was made
    status integer not null, -- of the HTTP reply; 0: none
    kind smallint not null, -- of the task: delivery (0), job (1)
    class smallint not null, -- of the outcome
    end_state smallint not null, -- of the task: open (0), succeeded (1), dead (2), cancelled (3)
    "trigger" smallint not null, -- scheduled (0), manual (1)
    subject bytea not null, -- the message or job
    task bytea not null,
    id bytea not null, -- sorts by time
    session bytea, -- the holder of a job, or the holder that a delivery was taken over from
    endpoint bytea, -- of deliveries
    url text not null, -- empty if a worker ran the job
    reply bytea not null, -- the receiver's reply, or the worker's report
    exchange text, -- the steps of a delivery's request and the head of its reply, as JSON; null if nothing was sent
    primary key (environment, subject, task, epoch, kind)
) partition by list (kind);

create table everhook.attempt_delivery partition of everhook.attempt for values in (0)
partition by range (subject);

create table everhook.attempt_job partition of everhook.attempt for values in (1)
partition by range (subject);

-- The attempts of an endpoint.
create index attempt_endpoint on everhook.attempt_delivery (environment, endpoint, id);

-- Keys under which an object is accepted once: of requests, events, outbox rows and unique jobs.
create table everhook.dedup (
    expires_at bigint not null,
    environment integer not null,
    scope smallint not null, -- idempotency key (0), event id (1), outbox row (2), unique job (3)
    hash bytea not null, -- of the key
    object bytea not null, -- the accepted message or job
    body bytea not null, -- the hash of the body that came with the key
    primary key (environment, scope, hash)
) with (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 1,
    vacuum_truncate = off
);

-- Payloads with a shorter retention period than their messages, by the time to erase them. Other messages have no row.
-- The key finds due rows in order.
create table everhook.payload_expiry (
    due_at bigint not null, -- when to erase the payload
    environment integer not null,
    application bytea not null,
    message bytea not null,
    primary key (due_at, environment, application, message)
);

-- Requests with an idempotency key, and their answers, if the handlers do not deduplicate inside their own transaction.
create table everhook.request (
    expires_at bigint not null, -- of the claim, later of the answer
    environment integer not null,
    status smallint, -- null: in progress
    hash bytea not null, -- of method, path and key
    holder bytea not null, -- the claim
    body bytea not null, -- the hash of the request's body
    answer bytea, -- sealed; null: too large to be kept, or in progress
    primary key (environment, hash)
);

-- For retention.
create index request_expires on everhook.request (expires_at);

-- Written once. The state of a job is the state of its task, or the end of its last attempt.
create table everhook.job (
    created_at bigint not null,
    environment integer not null,
    priority smallint not null, -- 0 runs first
    id bytea not null,
    queue text collate "C" not null,
    kind text collate "C" not null, -- names the handler
    name text, -- as shown to people
    concurrency_key text, -- jobs with the same one share a lane
    tags text, -- JSON; null: none
    batch bytea, -- null: none
    rest text, -- members that few jobs have, as JSON
    payload bytea, -- null: removed
    primary key (environment, id)
) partition by range (id);

-- The jobs of a batch.
create index job_batch on everhook.job (environment, batch, id)
where batch is not null;

-- The background tasks of an environment: jobs of the server's own environment whose concurrency key is the number of
-- the environment.
create index job_background on everhook.job (concurrency_key, id)
where environment = 0
    and queue = 'everhook.background';

-- Only jobs that reported progress or a result have a row.
create table everhook.job_output (
    updated_at bigint not null, -- of the last report
    environment integer not null,
    result_bytes integer, -- the size of a result that was too large to store
    progress smallint, -- in percent
    job bytea not null,
    progress_text text, -- what the job is doing
    result bytea, -- null: none, or too large
    primary key (environment, job)
) with (fillfactor = 60);

-- Batches, with the number of their jobs in each state.
create table everhook.batch (
    created_at bigint not null,
    environment integer not null,
    phase integer not null, -- the number of the current phase
    pending integer not null, -- the number of jobs, as in the next four columns
    succeeded integer not null,
    dead integer not null,
    cancelled integer not null,
    skipped integer not null, -- dead jobs that an operator has written off
    intake smallint not null, -- open (0), sealed (1)
    announced smallint, -- failed (0), completed (1); null: no announcement in this phase yet
    id bytea not null,
    application bytea not null, -- gets the announcements
    name text not null, -- as shown to people
    prefix text collate "C" not null, -- of the event types of its announcements
    metadata text not null, -- JSON of the user, part of the announcements
    primary key (environment, id)
) with (fillfactor = 50);

-- The latest runs of each schedule, started or left out.
create table everhook.schedule_run (
    nominal bigint not null, -- the time by the rule
    at bigint not null, -- the time of the decision
    environment integer not null,
    kind smallint not null, -- fired (0), missed (1), left out because of an overlap (2), manual (3)
    schedule bytea not null,
    id bytea not null, -- a generated id, which sorts by time
    object bytea, -- the job or message; null: none
    primary key (environment, schedule, id)
);

-- Attempts of a queue that ended in a minute, for its statistics.
create table everhook.queue_minute (
    environment integer not null,
    minute bigint not null, -- minutes since the Unix epoch
    ended bigint not null, -- the number of attempts
    queue text collate "C" not null,
    primary key (environment, queue, minute)
) with (fillfactor = 50);

-- Once-slots: keys under which an application's messages are accepted once per phase, and the calls that they
-- suppressed.

-- The current phase is open exactly if the winner's phase is lower. Retention uses `updated_at`.
create table everhook.once_slot (
    phase bigint not null, -- the current one
    winner_phase bigint not null, -- the phase in which the winner was accepted
    created_at bigint not null,
    claimed_at bigint not null, -- when the winner was accepted
    updated_at bigint not null, -- of the last claim or reset
    environment integer not null,
    application bytea not null,
    key text collate "C" not null, -- the sender's
    winner bytea not null, -- the accepted message
    primary key (environment, application, key)
) with (fillfactor = 80);

-- Append-only, so that a suppressed call changes no slot. One row counts all calls that one transaction suppressed.
create table everhook.once_suppression (
    created_at bigint not null,
    calls bigint not null, -- the number of suppressed calls
    environment integer not null,
    application bytea not null,
    key text collate "C" not null, -- of the slot
    winner bytea not null -- the message that suppressed them
);

-- The suppressed calls of a slot.
create index once_suppression_slot on everhook.once_suppression (environment, application, key);

-- Messages for polled endpoints. An append adds rows without a position. A poll gives them positions under the lock of
-- the poller, so that no row ever appears behind a position that was read.
create table everhook.polled (
    position bigint, -- null: no poll has seen it yet
    due_at bigint not null, -- not given out earlier
    environment integer not null,
    endpoint bytea not null,
    message bytea not null,
    primary key (environment, endpoint, message)
);

-- Messages without a position, in the order in which they get one.
create index polled_waiting on everhook.polled (environment, endpoint, due_at, message)
where position is null;

-- Messages in the order of their positions, which are unique.
create unique index polled_position on everhook.polled (environment, endpoint, position)
where position is not null;

-- For retention, by whole days. An index on a plain column could be chosen for the statements of readers.
create index polled_day on everhook.polled ((due_at / 86400000000));

-- The last position of each polled endpoint.
create table everhook.poller (
    position bigint not null, -- the last one given
    environment integer not null,
    endpoint bytea not null,
    primary key (environment, endpoint)
);

-- The positions of named readers.
create table everhook.poll_consumer (
    position bigint not null, -- confirmed up to here
    generation bigint not null, -- raised by every seek
    used_at bigint not null, -- of the last poll
    environment integer not null,
    endpoint bytea not null,
    name text collate "C" not null, -- the reader's
    primary key (environment, endpoint, name)
);

-- For retention.
create index poll_consumer_used on everhook.poll_consumer (used_at);

-- Counts of traffic: one row for each environment, span of time and run of a node, which replaces its rows.
create table everhook.traffic (
    start bigint not null, -- seconds since the Unix epoch
    environment integer not null,
    span integer not null, -- the length in seconds: 60, 900 or 3600
    source bytea not null, -- the run of a node
    counts text not null, -- JSON
    primary key (environment, span, start, source)
) with (fillfactor = 50);

-- For retention.
create index traffic_start on everhook.traffic (span, start);

-- Notes of operators about groups of dead deliveries: those of an endpoint that failed in the same way.
create table everhook.failure_mark (
    marked_at bigint not null, -- of the last note
    environment integer not null,
    state smallint not null, -- open (0), acknowledged (1), resolved (2)
    endpoint bytea not null,
    class text collate "C" not null, -- how the deliveries failed
    note text not null, -- the operator's
    primary key (environment, endpoint, class)
);

-- The audit log, append-only.
create table everhook.audit (
    seq bigint not null, -- from 1 without gaps
    at bigint not null,
    environment integer not null,
    phase smallint not null, -- begun (0), ended (1)
    status integer, -- of the HTTP reply; null: begun
    operation bytea not null, -- joins the two phases
    actor text not null, -- the name of the key, or a description of the token
    key_id bytea, -- the API key; null: none
    principal text, -- the person on whose behalf the caller acts
    action text collate "C" not null, -- the operation of the API
    object text collate "C" not null, -- its path
    reason text, -- as given by the actor
    request_hash bytea, -- of the request's body
    before_hash bytea, -- of the resource before the change
    after_hash bytea, -- of the resource after the change
    hash bytea not null, -- of this entry and the one before it
    primary key (environment, seq)
);

-- Finds the entries of an operation; one for each phase.
create unique index audit_operation on everhook.audit (environment, operation, phase);

create function everhook.refuse_audit_change() returns trigger language plpgsql as $$
begin
    raise exception 'the audit log is append-only';
end
$$;

create trigger audit_append_only before update or delete on everhook.audit
for each row execute function everhook.refuse_audit_change();

-- Weekly partitions. The functions run with the rights of the schema's owner, so that the service itself needs no right
-- to change the schema.

-- Creates the missing partitions of a week. Each is created as a plain table and then attached, which does not block
-- readers and writers of the other partitions. Weeks are counted from the seconds at the start of an id.
create function everhook.make_week(week integer) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    seconds constant bigint := 7 * 24 * 3600;
    seconds_end constant bigint := 4294967296;
    low constant bigint := week * seconds;
    high constant bigint := low + seconds;
    parent text;
    part text;
begin
    if week is null or low < 0 or low >= seconds_end then
        raise exception 'everhook.make_week: there is no week %', week using errcode = 'invalid_parameter_value';
    end if;
    -- The lock of the migrations. Two nodes may create the same partition at the same time.
    perform pg_advisory_xact_lock(x'65766572686f6f6b'::bigint);
    foreach parent in array array['message', 'attempt_delivery', 'job', 'attempt_job'] loop
        part := parent || '_w' || lpad(week::text, 4, '0');
        if to_regclass('everhook.' || part) is null then
            execute format(
                'create table everhook.%I (like everhook.%I including defaults including constraints including indexes)',
                part, parent
            );
            execute format(
                'alter table everhook.%I attach partition everhook.%I for values from (%L) to (%s)',
                parent, part, '\x' || lpad(to_hex(low), 8, '0'),
                case when high < seconds_end then quote_literal('\x' || lpad(to_hex(high), 8, '0')) else 'maxvalue' end
            );
        end if;
    end loop;
end
$$;

-- Drops one partition. The caller has locked the table and checked that no task of that week is open.
create function everhook.drop_week(parent text, week integer) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if parent is null or parent not in ('message', 'attempt_delivery', 'job', 'attempt_job') or week is null or week < 0 then
        raise exception 'everhook.drop_week: there is no week % of "%"', week, parent using errcode = 'invalid_parameter_value';
    end if;
    execute format('drop table if exists everhook.%I', parent || '_w' || lpad(week::text, 4, '0'));
end
$$;

-- Users of `everhook.send` must not call these functions.
revoke execute on function everhook.make_week(integer), everhook.drop_week(text, integer) from public;
