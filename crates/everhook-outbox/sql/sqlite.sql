-- The outbox in a customer's own file. The script can be run repeatedly. Times are microseconds since the Unix epoch,
-- lists are JSON. Strict tables need SQLite 3.37; newer clock functions would return null there.

-- Ids are never reused: a row is relayed once by its id.
create table if not exists everhook_outbox (
    id integer primary key autoincrement,
    created_at integer not null default (cast((julianday('now') - 2440587.5) * 86400000000 as integer)),
    environment text,
    application text not null,
    event_type text not null,
    payload text not null,
    event_id text,
    channels text,
    tags text,
    deliver_at integer,
    once_key text,
    once_phase integer
) strict;

-- Rows that could not be relayed, with their original ids.
create table if not exists everhook_outbox_aside (
    id integer primary key,
    created_at integer not null,
    set_aside_at integer not null default (cast((julianday('now') - 2440587.5) * 86400000000 as integer)),
    environment text,
    application text not null,
    event_type text not null,
    payload text not null,
    event_id text,
    channels text,
    tags text,
    deliver_at integer,
    once_key text,
    once_phase integer,
    error text not null
) strict;

-- One row with the identity of the outbox. Messages get ids above `floor`, so that they sort in row order.
create table if not exists everhook_outbox_relay (
    is_one integer primary key check (is_one = 1),
    identity blob not null,
    floor blob
) strict;

insert into everhook_outbox_relay (is_one, identity)
values (1, randomblob(16))
on conflict do nothing;
