-- Write the lane of a queue or of one concurrency key of it, unless it is there: open and empty.
-- Index: the primary key.
insert into lane (environment, id, feed, state, queue)
values (?1, ?2, ?4, 0, ?3)
on conflict (environment, id) do nothing;
