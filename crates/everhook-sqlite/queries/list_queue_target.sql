-- Open queues that have a target, of all environments. Scans: those that were configured are few.
select environment, name
from queue
where state = 0
    and target_url is not null
order by environment, name;
