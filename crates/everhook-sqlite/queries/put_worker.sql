-- Say what a session takes; repeating it replaces what was said before. Index: the primary key.
insert into worker (session, environment, queues, kinds)
values (?1, ?2, ?3, ?4)
on conflict (session) do update
set environment = excluded.environment,
    queues = excluded.queues,
    kinds = excluded.kinds;
