-- Notes of operators about groups of dead deliveries: those of an endpoint that failed in the same way. Additive: an
-- older binary neither reads nor writes this table.
create table failure_mark (
    environment integer not null,
    endpoint blob not null,
    class text not null,
    state integer not null, -- open (0), acknowledged (1), resolved (2)
    note text not null,
    marked_at integer not null,
    primary key (environment, endpoint, class)
) strict, without rowid;
