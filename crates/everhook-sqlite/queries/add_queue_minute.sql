-- Add to the number of attempts of a queue that ended in a minute. Index: the primary key.
insert into queue_minute (environment, queue, minute, ended)
values (?1, ?2, ?3, ?4)
on conflict (environment, queue, minute) do update
set ended = ended + excluded.ended;
