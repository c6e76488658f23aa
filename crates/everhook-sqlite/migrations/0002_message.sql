-- What happened: messages, attempts, and the keys under which something is accepted once.

-- With a rowid: payloads would leave an ordered tree of rows a handful of keys a page. The key begins with the application, so
-- that it also serves the list of an application's messages.
create table message (
    environment integer not null,
    application blob not null,
    id blob not null,
    event_type text not null,
    event_id text,
    channels text,
    tags text,
    payload blob, -- null: removed
    created_at integer not null,
    primary key (environment, application, id)
) strict;

-- With a rowid: replies are long. The key allows one attempt per task and epoch, and serves a message's attempts.
create table attempt (
    environment integer not null,
    subject blob not null,
    task blob not null,
    epoch integer not null,
    id blob not null,
    endpoint blob not null,
    class integer not null,
    end_state integer not null,
    "trigger" integer not null,
    url text not null,
    status integer not null,
    reply blob not null,
    started_at integer not null,
    duration_us integer not null,
    primary key (environment, subject, task, epoch)
) strict;

create index attempt_endpoint on attempt (environment, endpoint, id);

create table dedup (
    environment integer not null,
    scope integer not null,
    hash blob not null,
    object blob not null,
    body blob not null,
    expires_at integer not null,
    primary key (environment, scope, hash)
) strict, without rowid;
