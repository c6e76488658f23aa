-- Answers of requests with an idempotency key, and messages in the order in which pollers read them. Additive: an older
-- binary neither reads nor writes these tables.

-- Requests whose handlers do not deduplicate inside their own transaction.
create table request (
    environment integer not null,
    hash blob not null, -- of method, path and key
    holder blob not null,
    body blob not null, -- the hash of the request's body
    status integer, -- null: in progress
    answer blob, -- null: too large to be kept, or in progress
    expires_at integer not null, -- of the claim, later of the answer
    primary key (environment, hash)
) strict;

create index request_expires on request (expires_at);

-- Messages for polled endpoints. An append adds rows without a position. A poll gives them positions, so that no row
-- ever appears behind a position that was read.
create table polled (
    environment integer not null,
    endpoint blob not null,
    message blob not null,
    position integer,
    due_at integer not null,
    primary key (environment, endpoint, message)
) strict, without rowid;

create index polled_waiting on polled (environment, endpoint, due_at, message)
where position is null;

create unique index polled_position on polled (environment, endpoint, position)
where position is not null;

-- For retention, by whole days. An index on a plain column could be chosen for the statements of readers.
create index polled_day on polled ((due_at / 86400000000));

-- The last position of each polled endpoint.
create table poller (
    environment integer not null,
    endpoint blob not null,
    position integer not null,
    primary key (environment, endpoint)
) strict, without rowid;

create table poll_consumer (
    environment integer not null,
    endpoint blob not null,
    name text not null,
    position integer not null, -- confirmed up to here
    generation integer not null, -- raised by every seek
    used_at integer not null,
    primary key (environment, endpoint, name)
) strict, without rowid;

create index poll_consumer_used on poll_consumer (used_at);
