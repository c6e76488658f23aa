-- Write the queues and kinds that a session takes. Index: the primary key.
insert into worker (session, environment, queues, kinds)
values (?1, ?2, ?3, ?4)
on conflict (session) do update
set environment = excluded.environment,
    queues = excluded.queues,
    kinds = excluded.kinds;
