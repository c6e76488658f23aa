-- The keys that seal secrets: the one that seals now, and those that a rotation has not replaced everywhere yet. The
-- keys themselves are in a file or in the environment. An empty table means that secrets are plain text.
create table seal_key (
    id blob primary key, -- follows from the key
    state integer not null, -- current (0), retiring (1)
    created_at integer not null
) strict, without rowid;
