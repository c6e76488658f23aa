-- Write the lane of a queue or of one concurrency key of it, unless it is there: empty, and held as far as deliveries are concerned.
-- Index: the primary key.
insert into lane (environment, id, application, state, queue)
values (?1, ?2, x'', 1, ?3)
on conflict (environment, id) do nothing;
