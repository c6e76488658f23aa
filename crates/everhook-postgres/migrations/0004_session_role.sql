-- What the node of a session does: all (0), api (1), worker (2). A binary without roles writes none, and does everything.

alter table everhook.session add column role smallint not null default 0;
