-- The open queues that have a target. Scans queues, which are few.
select environment, name
from everhook.queue
where target_url is not null
    and state = 0
order by environment, name;
