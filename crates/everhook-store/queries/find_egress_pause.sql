-- Find the pause of egress. The table has at most one row.
select {EgressPause}
from everhook.egress_pause;
