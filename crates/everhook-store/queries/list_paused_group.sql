-- List the paused applications and queues of all environments. Every node reads this every few seconds.
-- Index: lane_group_paused.
select environment, id
from everhook.lane_group
where state = 1
order by environment, id;
