-- Write the queues and kinds that a session takes. Index: the primary key.
insert into everhook.worker (environment, session, queues, kinds)
values (:environment, :session, :queues, :kinds)
on conflict (session) do update
set environment = excluded.environment,
    queues = excluded.queues,
    kinds = excluded.kinds;
