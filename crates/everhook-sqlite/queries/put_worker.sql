-- Write the queues and kinds that a session takes. Index: the primary key.
insert into worker (session, environment, queues, kinds)
values (:session, :environment, :queues, :kinds)
on conflict (session) do update
set environment = excluded.environment,
    queues = excluded.queues,
    kinds = excluded.kinds;
