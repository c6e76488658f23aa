-- The keys that seal secrets: the one that seals now, and those that a rotation has not replaced everywhere yet. The
-- keys themselves are in a file or in the environment. An empty table means that secrets are plain text.
create table everhook.seal_key (
    id bytea primary key, -- follows from the key
    state smallint not null, -- current (0), retiring (1)
    created_at bigint not null
);
