-- Application tokens: the keys that sign them, and the records that end them before they expire. An older binary uses
-- neither table, and none of its own tables change.

create table everhook.token_key (
    created_at bigint not null,
    superseded_at bigint, -- since when a newer key signs
    id bytea primary key,
    secret bytea not null
);

create table everhook.token_end (
    issued_until bigint not null, -- tokens issued later stay valid
    ends_at bigint not null,
    forget_at bigint not null, -- when all of these tokens have expired
    environment integer not null,
    application bytea not null,
    subject bytea not null, -- empty: every token of the application; else the hash of a session or of one token
    primary key (environment, application, subject, issued_until)
);

create index token_end_forget on everhook.token_end (forget_at)
where forget_at < 9223372036854775807;
