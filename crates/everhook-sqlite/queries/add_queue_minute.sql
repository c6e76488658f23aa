-- Add to the number of attempts of a queue that ended in a minute. Index: the primary key.
insert into queue_minute (environment, queue, minute, ended)
values (:environment, :queue, :minute, :ended)
on conflict (environment, queue, minute) do update
set ended = ended + excluded.ended;
