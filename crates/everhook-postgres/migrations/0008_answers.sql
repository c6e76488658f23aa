-- Answers of requests with an idempotency key, and messages in the order in which pollers read them. Additive: an older
-- binary neither reads nor writes these tables.

-- Requests whose handlers do not deduplicate inside their own transaction.
create table everhook.request (
    expires_at bigint not null, -- of the claim, later of the answer
    environment integer not null,
    status smallint, -- null: in progress
    hash bytea not null, -- of method, path and key
    holder bytea not null,
    body bytea not null, -- the hash of the request's body
    answer bytea, -- null: too large to be kept, or in progress
    primary key (environment, hash)
);

create index request_expires on everhook.request (expires_at);

-- Messages for polled endpoints. An append adds rows without a position. A poll gives them positions under the lock of
-- the poller, so that no row ever appears behind a position that was read.
create table everhook.polled (
    position bigint,
    due_at bigint not null,
    environment integer not null,
    endpoint bytea not null,
    message bytea not null,
    primary key (environment, endpoint, message)
);

create index polled_waiting on everhook.polled (environment, endpoint, due_at, message)
where position is null;

create unique index polled_position on everhook.polled (environment, endpoint, position)
where position is not null;

-- For retention, by whole days. An index on a plain column could be chosen for the statements of readers.
create index polled_day on everhook.polled ((due_at / 86400000000));

-- The last position of each polled endpoint.
create table everhook.poller (
    position bigint not null,
    environment integer not null,
    endpoint bytea not null,
    primary key (environment, endpoint)
);

create table everhook.poll_consumer (
    position bigint not null, -- confirmed up to here
    generation bigint not null, -- raised by every seek
    used_at bigint not null,
    environment integer not null,
    endpoint bytea not null,
    name text collate "C" not null,
    primary key (environment, endpoint, name)
);

create index poll_consumer_used on everhook.poll_consumer (used_at);
