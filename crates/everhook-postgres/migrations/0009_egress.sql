-- The pause of egress. Additive: an older binary does not know this table, and sends in spite of a pause.

create table everhook.egress_pause (
    id integer primary key check (id = 1), -- at most one row
    since bigint not null,
    reason text not null
);
