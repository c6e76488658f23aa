-- Application tokens: the keys that sign them, and the records that end them before they expire. An older binary uses
-- neither table, and none of its own tables change.

create table token_key (
    id blob primary key,
    secret blob not null,
    created_at integer not null,
    superseded_at integer -- since when a newer key signs
) strict, without rowid;

create table token_end (
    environment integer not null,
    application blob not null,
    subject blob not null, -- empty: every token of the application; else the hash of a session or of one token
    issued_until integer not null, -- tokens issued later stay valid
    ends_at integer not null,
    forget_at integer not null, -- when all of these tokens have expired
    primary key (environment, application, subject, issued_until)
) strict, without rowid;

create index token_end_forget on token_end (forget_at)
where forget_at < 9223372036854775807;
