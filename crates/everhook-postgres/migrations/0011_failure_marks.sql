-- Notes of operators about groups of dead deliveries: those of an endpoint that failed in the same way. Additive: an
-- older binary neither reads nor writes this table.
create table everhook.failure_mark (
    marked_at bigint not null,
    environment integer not null,
    state smallint not null, -- open (0), acknowledged (1), resolved (2)
    endpoint bytea not null,
    class text collate "C" not null,
    note text not null,
    primary key (environment, endpoint, class)
);
