-- When to erase payloads that are kept for less time than their messages. Only messages that say so have a row; the key
-- finds due rows in order.
create table payload_expiry (
    due_at integer not null,
    environment integer not null,
    application blob not null,
    message blob not null,
    primary key (due_at, environment, application, message)
) strict, without rowid;
