-- Add the lane of a queue or of one of its concurrency keys, open and empty, unless it exists. Index: the primary key.
insert into lane (environment, id, feed, state, queue)
values (:environment, :id, :feed, 0, :queue)
on conflict (environment, id) do nothing;
