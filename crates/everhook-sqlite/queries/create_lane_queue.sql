-- Add the lane of a queue or of one of its concurrency keys, open and empty, unless it exists. Index: the primary key.
insert into lane (environment, id, feed, state, queue)
values (?1, ?2, ?4, 0, ?3)
on conflict (environment, id) do nothing;
