-- Once-slots: a key under which an application's messages are accepted once per phase, and the calls that came too late.

-- The current phase is open exactly if the winner's is lower. Retention goes by `updated_at`.
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

-- Append-only, so that a call that is suppressed changes no slot: one row for all such calls of one transaction.
create table once_suppression (
    environment integer not null,
    application blob not null,
    key text not null,
    winner blob not null,
    calls integer not null,
    created_at integer not null
) strict;

create index once_suppression_slot on once_suppression (environment, application, key);
