-- When to erase payloads that are kept for less time than their messages. Only messages that say so have a row; the key
-- finds due rows in order.
create table everhook.payload_expiry (
    due_at bigint not null,
    environment integer not null,
    application bytea not null,
    message bytea not null,
    primary key (due_at, environment, application, message)
);
