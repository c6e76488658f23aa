-- History: messages, jobs, attempts, results, batches, runs of schedules, and keys under which an object is accepted
-- once. Messages, jobs and attempts are partitioned by the week of the message's or job's id. The store creates the
-- partitions ahead.

-- The key starts with the application, so that it also serves the list of an application's messages.
create table everhook.message (
    created_at bigint not null,
    environment integer not null,
    application bytea not null,
    id bytea not null,
    event_type text collate "C" not null,
    event_id text collate "C",
    channels text,
    tags text,
    rest text, -- members that few messages have, as JSON: delivery time, content type, payload retention
    payload bytea, -- null: removed
    primary key (environment, application, id)
) partition by range (id);

-- The key allows one attempt per task and epoch, and finds the attempts of a message or job. Attempts of deliveries and
-- jobs have separate partitions, because their retention periods differ. A partitioned key must contain the kind, which
-- is why it ends with it.
create table everhook.attempt (
    started_at bigint not null,
    duration_us bigint not null,
    environment integer not null,
    epoch integer not null,
    status integer not null,
    kind smallint not null,
    class smallint not null,
    end_state smallint not null,
    "trigger" smallint not null,
    subject bytea not null,
    task bytea not null,
    id bytea not null,
    session bytea, -- the holder of a job, or the holder that a delivery was taken over from
    endpoint bytea, -- of deliveries
    url text not null, -- empty if a worker ran the job
    reply bytea not null, -- the receiver's reply, or the worker's report
    primary key (environment, subject, task, epoch, kind)
) partition by list (kind);

create table everhook.attempt_delivery partition of everhook.attempt for values in (0)
partition by range (subject);

create table everhook.attempt_job partition of everhook.attempt for values in (1)
partition by range (subject);

create index attempt_endpoint on everhook.attempt_delivery (environment, endpoint, id);

create table everhook.dedup (
    expires_at bigint not null,
    environment integer not null,
    scope smallint not null,
    hash bytea not null,
    object bytea not null,
    body bytea not null,
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
    due_at bigint not null,
    environment integer not null,
    application bytea not null,
    message bytea not null,
    primary key (due_at, environment, application, message)
);

-- Written once. The state of a job is the state of its task, or the end of its last attempt.
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
    rest text, -- members that few jobs have, as JSON
    payload bytea, -- null: removed
    primary key (environment, id)
) partition by range (id);

create index job_batch on everhook.job (environment, batch, id)
where batch is not null;

-- Only jobs that reported progress or a result have a row.
create table everhook.job_output (
    updated_at bigint not null,
    environment integer not null,
    result_bytes integer, -- the size of a result that was too large to store
    progress smallint,
    job bytea not null,
    progress_text text,
    result bytea,
    primary key (environment, job)
) with (fillfactor = 60);

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
    announced smallint, -- null: no announcement in this phase yet
    id bytea not null,
    application bytea not null,
    name text not null,
    prefix text collate "C" not null,
    metadata text not null,
    primary key (environment, id)
) with (fillfactor = 50);

create table everhook.schedule_run (
    nominal bigint not null,
    at bigint not null,
    environment integer not null,
    kind smallint not null,
    schedule bytea not null,
    id bytea not null, -- a generated id, which sorts by time
    object bytea,
    primary key (environment, schedule, id)
);

create table everhook.queue_minute (
    environment integer not null,
    minute bigint not null,
    ended bigint not null,
    queue text collate "C" not null,
    primary key (environment, queue, minute)
) with (fillfactor = 50);

-- Once-slots: keys under which an application's messages are accepted once per phase, and the calls that they
-- suppressed.

-- The current phase is open exactly if the winner's phase is lower. Retention uses `updated_at`.
create table everhook.once_slot (
    phase bigint not null,
    winner_phase bigint not null,
    created_at bigint not null,
    claimed_at bigint not null,
    updated_at bigint not null,
    environment integer not null,
    application bytea not null,
    key text collate "C" not null,
    winner bytea not null,
    primary key (environment, application, key)
) with (fillfactor = 80);

-- Append-only, so that a suppressed call changes no slot. One row counts all calls that one transaction suppressed.
create table everhook.once_suppression (
    created_at bigint not null,
    calls bigint not null,
    environment integer not null,
    application bytea not null,
    key text collate "C" not null,
    winner bytea not null
);

create index once_suppression_slot on everhook.once_suppression (environment, application, key);

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
