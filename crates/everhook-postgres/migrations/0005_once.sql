-- Once-slots: a key under which an application's messages are accepted once per phase, and the calls that came too late.

-- The current phase is open exactly if the winner's is lower. Retention goes by `updated_at`.
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

-- Append-only, so that a call that is suppressed changes no slot: one row for all such calls of one transaction.
create table everhook.once_suppression (
    created_at bigint not null,
    calls bigint not null,
    environment integer not null,
    application bytea not null,
    key text collate "C" not null,
    winner bytea not null
);

create index once_suppression_slot on everhook.once_suppression (environment, application, key);
