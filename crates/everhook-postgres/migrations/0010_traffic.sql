-- Counts of traffic: one row for each environment, span of time and run of a node, which replaces its rows. Additive: an
-- older binary neither reads nor writes this table.
create table everhook.traffic (
    start bigint not null, -- seconds since the Unix epoch
    environment integer not null,
    span integer not null, -- the length in seconds: 60, 900 or 3600
    source bytea not null,
    counts text not null, -- JSON
    primary key (environment, span, start, source)
) with (fillfactor = 50);

-- For retention.
create index traffic_start on everhook.traffic (span, start);
