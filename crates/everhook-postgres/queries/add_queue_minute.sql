-- Add to the number of attempts that ended on queues in this minute. Index: the primary key.
-- Differs: many rows at once, in key order.
insert into everhook.queue_minute as minute (environment, queue, minute, ended)
select environment, queue, everhook.now_us() / 60000000, sum(ended)
from unnest(:told)
group by environment, queue
order by environment, queue collate "C"
on conflict (environment, queue, minute) do update
set ended = minute.ended + excluded.ended;
