-- What the node of a session does: all (0), api (1), worker (2). A binary without roles writes none, and does everything.

alter table session add column role integer not null default 0;
