-- The outbox in a customer's own file. Running it again changes nothing. Times are microseconds since the Unix epoch, lists are JSON.
-- The clock is read in a way that SQLite 3.37 knows, which strict tables need anyway: newer ways are null there.

-- Numbers are never used again: a row is relayed once by its number.
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

-- Rows that could not be relayed, out of the way of the others; under the ids they had.
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

-- One row: which outbox this is. Messages get ids above `floor`, so that they sort as the rows did.
create table if not exists everhook_outbox_relay (
    is_one integer primary key check (is_one = 1),
    identity blob not null,
    floor blob
) strict;

insert into everhook_outbox_relay (is_one, identity)
values (1, randomblob(16))
on conflict do nothing;
